"""Families of models: ViT, MUNKEY, SISA and KNN. Each is one file in `families`; `networks` holds their layers."""
