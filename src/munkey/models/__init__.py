"""Families of models, such as the ViT, MUNKEY, and KNN (in `families`), and their networks."""
