"""Tools for developers of this repository: tables in the docs and copies of results."""
