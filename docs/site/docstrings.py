"""Docstrings are plain text with code in single backticks; here they become what autodoc reads."""

import re

from sphinx.application import Sphinx

CODE = re.compile(r"(`[^`]+`)")
SPECIAL = re.compile(r"([\\*|_])")  # would start emphasis, a substitution, a link


def marked_up(text: str) -> str:
    """The same text, in which only code is marked up."""
    parts = CODE.split(text)
    return "".join(f"`{part}`" if CODE.fullmatch(part) else SPECIAL.sub(r"\\\1", part) for part in parts)


def convert(_: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Change the lines of a docstring in place."""
    lines[:] = marked_up("\n".join(lines)).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", convert)
    return {"parallel_read_safe": True}
