"""One family of models a file."""
