"""A model behind HTTP (docs/service.md)."""
