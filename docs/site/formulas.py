"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOG = logging.getLogger(__name__)


def formula(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula; what is not understood is a warning, which fails a strict build."""
    block = isinstance(node, nodes.math_block)
    try:
        written = tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        LOG.warning("formula: %s", error, location=node)
        raise nodes.SkipNode from error
    translator.body.append(f'<div class="formula">{written}</div>' if block else written)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
