"""Exported models (docs/serving.md): predict, forget, add, and explain."""
