"""The estimated cost of a configuration, before its first job."""
