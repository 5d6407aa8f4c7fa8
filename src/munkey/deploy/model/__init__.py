"""A trained MUNKEY in a directory: manifest, export, retrieval, predictor."""
