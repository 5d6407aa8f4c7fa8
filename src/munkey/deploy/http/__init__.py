"""The HTTP service of a model (docs/serving.md)."""
