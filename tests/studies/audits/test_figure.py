"""The figures of audits."""

import numpy as np
import pandas as pd
import pytest

from munkey.report.figures import theme
from munkey.studies.audits.figure import compute_limits, forest_plot, strata_plot
from munkey.studies.audits.grid_figure import grid_plot
from tests.report.inputs import DOLLARS
from tests.studies.audits.drawings import grid_rows, shares, strata
from tests.studies.figures import read_texts


def test_the_legend_of_a_narrow_figure_of_shares_is_not_cut_off():
    figure = forest_plot(shares(), theme.NARROW)
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0
    assert legend.x1 <= figure.bbox.x1


def test_strata_whose_intervals_have_no_end_are_named_and_draw_no_empty_panel():
    audit = strata()
    columns = [f"share_of_{name}_high" for name in ("low", "mid", "high", "top")]
    audit.loc[audit["name"] == "CF", columns] = np.inf
    figure = strata_plot(audit)
    (axes,) = figure.axes
    assert "CF" not in [label.get_text() for label in axes.get_yticklabels()]
    assert figure.get_suptitle().endswith("unbounded: CF")
    audit[columns] = np.inf
    figure = strata_plot(audit)
    assert not figure.axes
    assert "All intervals are unbounded" in figure.texts[0].get_text()


def test_shares_that_could_not_be_measured_are_left_out():
    audit = shares()
    audit.loc[audit["name"] == "CF", "share"] = np.nan
    (axes,) = forest_plot(audit).axes
    assert "CF" not in [label.get_text() for label in axes.get_yticklabels()]
    for nothing in (audit.assign(share=np.nan), audit.drop(columns="share")):
        assert "could be measured" in forest_plot(nothing).texts[0].get_text()


def test_a_method_with_one_stratum_that_could_not_be_measured_is_drawn():
    audit = strata()
    audit.loc[audit["name"] == "CF", "share_of_low"] = np.nan
    (axes,) = strata_plot(audit).axes
    assert "CF" in [label.get_text() for label in axes.get_yticklabels()]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        # both marks, 0 and 100, are always on it
        (20.0, 60.0, (-25 - 0.03 * 135, 110 + 0.03 * 135)),
        (-50.0, 180.0, (-50 - 0.03 * 230, 180 + 0.03 * 230)),
        (-np.inf, 900.0, (-25 - 0.03 * 325, 300 + 0.03 * 325)),
    ],
)
def test_the_axis_of_shares_holds_0_100_and_all_intervals_up_to_300(low, high, expected):
    rows = pd.DataFrame({"share": [40.0], "share_low": [low], "share_high": [high]})
    assert compute_limits(rows) == pytest.approx(expected)


def test_a_name_with_dollars_is_drawn_verbatim():
    assert DOLLARS in read_texts(forest_plot(shares().replace("SCRUB", DOLLARS)))


@pytest.mark.parametrize(
    ("draw", "frame"), [(grid_plot, grid_rows().iloc[:0]), (forest_plot, shares().iloc[:0])]
)
def test_an_empty_table_is_not_drawn(draw, frame):
    with pytest.raises(ValueError, match="no rows"):
        draw(frame)
