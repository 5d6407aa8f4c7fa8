"""The parameters: their typed form, their check, overlays, and the files and packages that they name."""
