"""For who works on this repository: tables of the docs, copies of results."""
