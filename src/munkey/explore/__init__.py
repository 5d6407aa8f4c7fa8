"""One page, in one file, on which a reader follows single samples through forgetting.

`contents.py` defines the contents of the page and lists its views; the other modules make its parts.
"""
