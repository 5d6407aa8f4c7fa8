"""Studies: questions beyond the main run, each in a folder that can be removed."""
