"""The command `munkey`."""
