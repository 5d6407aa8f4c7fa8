"""Families of models, such as the ViT, MUNKEY and KNN: a file each in `families`, layers in `networks`."""
