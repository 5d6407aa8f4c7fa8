"""A self-contained HTML page on which readers follow single samples through forgetting.

`contents.py` defines the contents and the views of the page. The other modules create its parts.
"""
