"""What the tests of several studies share."""

import pytest
from matplotlib.figure import Figure

from tests.studies.figures import capture_figures


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that a test saves; no file is written."""
    return capture_figures(monkeypatch)
