"""Cells of tables that hold a number, with its spread or interval, stay on one line; a wide table scrolls by itself."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

SHORT = 24  # characters of the longest cell that is never broken


class Unbroken(SphinxTransform):
    default_priority = 500

    def apply(self) -> None:
        for cell in self.document.findall(nodes.entry):
            if len(cell.astext()) <= SHORT:
                cell["classes"].append("unbroken")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Unbroken)
    return {"parallel_read_safe": True}
