"""Docstrings are plain text with code in single backticks; here they become what autodoc reads.

Sections as numpydoc has them, with underlined titles, are left to Sphinx's napoleon, which runs after this.
"""

import inspect
import re
import sys
from operator import attrgetter

from sphinx.application import Sphinx

CODE = re.compile(r"(``[^`]+``|`[^`]+`)")  # the former in docstrings that come from scikit-learn
ATTRIBUTES = re.compile(r"^Attributes\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", re.MULTILINE | re.DOTALL)
SPECIAL = re.compile(r"([\\*|_])")  # would start emphasis, a substitution, a link


def marked_up(text: str) -> str:
    """The same text, in which only code is marked up. Examples stay as they are."""
    return "\n\n".join(_marked_up_paragraph(paragraph) for paragraph in text.split("\n\n"))


def _marked_up_paragraph(paragraph: str) -> str:
    if paragraph.lstrip().startswith(">>>"):
        return paragraph
    marked = []
    for part in CODE.split(paragraph):
        if not CODE.fullmatch(part):
            marked.append(SPECIAL.sub(r"\\\1", part))
        elif part.startswith("``"):
            marked.append(part)
        else:
            marked.append(f"`{part}`")
    return "".join(marked)


def convert(
    _: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Change the lines of a docstring in place."""
    lines[:] = marked_up("\n".join(lines)).split("\n")


def skip_listed_attribute(
    app: Sphinx, what: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    """Skip an attribute that the docstring of its class describes in a section of its own."""
    module_name = app.env.temp_data.get("autodoc:module")
    class_name = app.env.temp_data.get("autodoc:class")
    if what != "class" or not module_name or not class_name:
        return None
    owner = attrgetter(class_name)(sys.modules[module_name])
    section = ATTRIBUTES.search(inspect.cleandoc(owner.__doc__ or ""))
    if section and re.search(rf"^{re.escape(name)}( *:.*)?$", section[1], re.MULTILINE):
        return True
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", convert)
    app.connect("autodoc-skip-member", skip_listed_attribute)
    return {"parallel_read_safe": True}
