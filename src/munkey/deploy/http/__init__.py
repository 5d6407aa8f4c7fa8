"""A model behind HTTP (docs/serving.md)."""
