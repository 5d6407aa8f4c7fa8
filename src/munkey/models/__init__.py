"""Families of models, as the ViT, MUNKEY, KNN. Each is one file in `families`; `networks` holds their layers."""
