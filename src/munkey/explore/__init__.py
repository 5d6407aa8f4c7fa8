"""A web page, in one file, that shows what forgetting does to single samples.

`contents.py` defines the contents of the page and its views; the other modules make its parts.
"""
