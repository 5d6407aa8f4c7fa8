"""What the tests of several studies' figures share."""

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from munkey.report.figures import theme


def capture_figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that jobs save from now on; no file is written."""
    figures: list[Figure] = []
    monkeypatch.setattr(theme, "save", lambda figure, path: figures.append(figure))
    return figures


def read_texts(figure: Figure) -> str:
    """All texts of a drawn figure, a line each."""
    figure.draw_without_rendering()
    return "\n".join(text.get_text() for text in figure.findobj(Text))
