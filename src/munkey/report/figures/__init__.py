"""The figures: one module per kind, `theme` for what they share, and `charts` to draw each one from files on disk."""
