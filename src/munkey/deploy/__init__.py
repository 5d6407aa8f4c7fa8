"""A trained MUNKEY in its own directory (docs/serving.md): answer, forget, add, explain."""
