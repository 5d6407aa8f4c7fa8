"""Speed, measured: `make bench`, and `make docs` for the tables of docs/gallery."""
