"""The parameters: their schema, their checks, overlays, and the files that they refer to."""
