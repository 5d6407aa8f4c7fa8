"""One page, in one file, on which a reader follows single samples through forgetting.

`contents.py` describes what the page holds and lists its views; the other modules make its parts.
"""
