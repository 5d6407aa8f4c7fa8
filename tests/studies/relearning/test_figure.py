"""The figure of relearning: a panel for each method, beside the oracle and the original of its own family."""

import numpy as np
import pytest

from munkey.studies.relearning.figure import relearning_plot
from tests.studies.relearning.drawings import STEPS, relearned


def test_each_method_has_a_panel_with_the_references_of_its_family():
    curves = relearned()
    panels = [axes for axes in relearning_plot(curves).axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == [
        *(f"Method {number}" for number in range(5)),
        "MUNKEY",
    ]
    means = curves.groupby(["name", "step"])["FA"].mean()
    for axes, names in (
        (panels[0], ("method-0", "retrain-t", "original-t")),
        (panels[5], ("munkey", "retrain-m", "original-m")),
    ):
        for line, name in zip(axes.lines, names, strict=True):
            np.testing.assert_allclose(line.get_xdata(), STEPS)
            np.testing.assert_allclose(line.get_ydata(), means[name])


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="no rows"):
        relearning_plot(relearned().iloc[:0])
