"""The figure of relearning: a panel for each method, beside the oracle and the original of its own family."""

import numpy as np
import pytest

from munkey.studies.relearning.figure import relearning_plot
from tests.studies.relearning.drawings import STEPS, forget_curves


def test_each_method_has_a_panel_with_the_references_of_its_family():
    curves = forget_curves()
    panels = [axes for axes in relearning_plot(curves).axes if axes.get_visible()]
    titles = [f"Method {number}" for number in range(5)]
    assert [axes.get_title() for axes in panels] == [*titles, "MUNKEY"]
    means = curves.groupby(["name", "step"])["FA"].mean()
    for axes, names in (
        (panels[0], ("method-0", "retrain-t", "original-t")),
        (panels[5], ("munkey", "retrain-m", "original-m")),
    ):
        for line, name in zip(axes.lines, names, strict=True):
            np.testing.assert_allclose(line.get_xdata(), STEPS)
            np.testing.assert_allclose(line.get_ydata(), means[name])


def test_an_empty_table_is_not_drawn():
    with pytest.raises(ValueError, match="no rows"):
        relearning_plot(forget_curves().iloc[:0])
