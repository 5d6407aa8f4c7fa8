"""The figures of the selection."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import write_npz, write_text
from munkey.studies.selection import figure
from munkey.studies.selection.figure import selection_plot, sensitivity_plot
from tests.report.inputs import DOLLARS
from tests.studies.figures import read_texts
from tests.studies.selection.drawings import grid, training_curves


def list_thresholds(axes):
    """The dotted lines of a panel."""
    return [line for line in axes.lines if line.get_linestyle() == ":"]


def test_every_pair_has_its_numbers_and_panels_in_percent_share_a_scale():
    gap, sensitivity, *percent = selection_plot(grid(), 0.3).axes
    assert [line.get_xdata()[0] for line in gap.lines] == grid()["gap"].tolist()
    (threshold,) = list_thresholds(sensitivity)
    assert threshold.get_xdata()[0] == 0.3
    assert len({round(float(np.ptp(axes.get_xlim())), 6) for axes in percent}) == 1


def test_the_figure_of_pairs_says_that_no_pair_passes():
    assert (
        selection_plot(grid().assign(chosen=False), 0.3).get_suptitle().endswith("no pair passes")
    )


def test_curves_over_training_are_means_over_seeds_with_a_band():
    first = training_curves(0)
    second = training_curves(1)
    second["A_image"] += 4
    drawing = sensitivity_plot(pd.concat([first, second]))
    image = next(line for line in drawing.axes[1].lines if line.get_label() == "image alone")
    assert image.get_ydata()[0] == 42
    assert drawing.get_supxlabel().endswith("over n = 2 seeds")
    assert sensitivity_plot(training_curves()).get_supxlabel() == "one seed, n = 1"


def test_a_name_with_dollars_is_drawn_verbatim():
    assert DOLLARS in read_texts(selection_plot(grid().assign(dataset=DOLLARS), 0.3))
    assert DOLLARS in read_texts(sensitivity_plot(training_curves().assign(dataset=DOLLARS)))


@pytest.mark.parametrize(
    ("draw", "frame", "message"),
    [
        (sensitivity_plot, training_curves().assign(P_s=np.inf), "infinite"),
        (partial(selection_plot, threshold=0.3), grid().iloc[:0], "no rows"),
    ],
)
def test_an_empty_or_infinite_table_is_not_drawn(draw, frame, message):
    with pytest.raises(ValueError, match=message):
        draw(frame)


def test_sensitivity_is_drawn_from_the_traces_of_all_seeds_with_its_threshold(tmp_path, figures):
    curves = training_curves()
    write_npz(tmp_path / "trace.npz", {name: curves[name].to_numpy() for name in figure.TRACED})
    traces = [tmp_path / "trace.npz"] * 2
    figure.sensitivity_figure(traces, tmp_path / "a.svg", "digits", 0.25)
    panel, _ = figures[0].axes
    assert panel.get_title(loc="left") == "digits"
    assert figures[0].get_supxlabel().endswith("over n = 2 seeds")
    (threshold,) = list_thresholds(panel)
    assert threshold.get_ydata()[0] == 0.25


def test_the_table_of_the_selection_is_drawn(tmp_path, figures):
    write_text(tmp_path / "table.csv", grid().to_csv(index=False))
    figure.selection_figure(tmp_path / "table.csv", tmp_path / "a.svg", 0.25)
    _, sensitivity, *_ = figures[0].axes
    (threshold,) = list_thresholds(sensitivity)
    assert threshold.get_xdata()[0] == 0.25


def test_no_axis_of_a_percentage_goes_beyond_100_and_a_mark_at_100_is_whole():
    pairs = grid().assign(
        RA=np.linspace(99.5, 100, len(grid())), TA=np.linspace(80, 95, len(grid()))
    )
    drawing = selection_plot(pairs, 0.3)
    for axes in drawing.axes[2:]:
        low, high = axes.get_xlim()
        assert max(axes.get_xticks()) <= 100
        assert high <= 100 + 0.05 * (high - low) + 1e-9
    assert drawing.axes[3].get_xlim()[1] > 100


def test_sensitivity_has_a_row_for_each_data_set_and_the_range_of_seeds():
    parts = [training_curves(seed).assign(dataset="cifar10") for seed in (0, 1, 2)]
    drawing = sensitivity_plot(pd.concat([*parts, training_curves(3)]))
    titles = [axes.get_title(loc="left") for axes in drawing.axes[::2]]
    assert titles == ["cifar10", "digits"]
    assert drawing.get_supxlabel().endswith("over n = 1 to 3 seeds")
