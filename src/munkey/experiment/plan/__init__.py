"""The plan of a configuration, computed from its parameters: cases, files, exhibits."""
