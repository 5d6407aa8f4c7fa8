"""A trained MUNKEY in a directory of its own (docs/serving.md): answer, forget, add, explain."""
