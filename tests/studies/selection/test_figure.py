"""The figures of the selection."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from munkey.core.files import write_npz, write_text
from munkey.report.figures import theme
from munkey.studies.selection import figure as figures
from munkey.studies.selection.figure import selection_plot, sensitivity_plot
from tests.report.figures.test_figures import DOLLARS
from tests.studies.selection.drawings import grid, training


@pytest.fixture
def drawn(monkeypatch):
    """The figures that jobs save."""
    saved = []
    monkeypatch.setattr(theme, "save", lambda figure, path: saved.append(figure))
    return saved


def test_every_pair_has_its_numbers_and_panels_in_percent_have_one_scale():
    gap, sensitivity, *percent = selection_plot(grid(), 0.3).axes
    assert [line.get_xdata()[0] for line in gap.lines] == grid()["gap"].tolist()
    assert [line.get_xdata()[0] for line in sensitivity.lines if line.get_linestyle() == ":"] == [
        0.3
    ]
    assert len({round(float(np.ptp(axes.get_xlim())), 6) for axes in percent}) == 1
    assert (
        selection_plot(grid().assign(chosen=False), 0.3).get_suptitle().endswith(": no pair passes")
    )


def test_curves_over_training_are_means_over_seeds_with_a_band():
    several = pd.concat(
        [training(seed).assign(A_image=lambda f, s=seed: f["A_image"] + 4 * s) for seed in (0, 1)]
    )
    figure = sensitivity_plot(several)
    image = next(line for line in figure.axes[1].lines if line.get_label() == "image alone")
    assert image.get_ydata()[0] == 42
    assert figure.get_supxlabel() == "mean ± standard deviation over n = 2 seeds"
    assert sensitivity_plot(training()).get_supxlabel() == "one seed, n = 1"


def test_a_name_with_dollars_is_drawn_as_it_is():
    for figure in (
        selection_plot(grid().assign(dataset=DOLLARS), 0.3),
        sensitivity_plot(training().assign(dataset=DOLLARS)),
    ):
        figure.draw_without_rendering()
        assert any(DOLLARS in text.get_text() for text in figure.findobj(Text))


@pytest.mark.parametrize(
    ("draw", "frame", "message"),
    [
        (sensitivity_plot, training().assign(P_s=np.inf), "infinite"),
        (partial(selection_plot, threshold=0.3), grid().iloc[:0], "no rows"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, frame, message):
    with pytest.raises(ValueError, match=message):
        draw(frame)


def test_sensitivity_is_drawn_from_the_traces_of_all_seeds_with_its_threshold(tmp_path, drawn):
    frame = training()
    write_npz(tmp_path / "trace.npz", {name: frame[name].to_numpy() for name in figures.TRACED})
    traces = [tmp_path / "trace.npz"] * 2
    figures.sensitivity_figure(traces, tmp_path / "a.svg", "digits", 0.25)
    left, _ = drawn[0].axes
    assert left.get_title(loc="left") == "digits"
    assert drawn[0].get_supxlabel().endswith("over n = 2 seeds")
    assert [line.get_ydata()[0] for line in left.lines if line.get_linestyle() == ":"] == [0.25]


def test_the_table_of_the_selection_is_drawn(tmp_path, drawn):
    write_text(tmp_path / "table.csv", grid().to_csv(index=False))
    figures.selection_figure(tmp_path / "table.csv", tmp_path / "a.svg", 0.25)
    _, sensitivity, *_ = drawn[0].axes
    assert [line.get_xdata()[0] for line in sensitivity.lines if line.get_linestyle() == ":"] == [
        0.25
    ]


def test_no_axis_of_a_percentage_goes_beyond_100_and_a_mark_at_100_is_whole():
    pairs = grid().assign(
        RA=np.linspace(99.5, 100, len(grid())), TA=np.linspace(80, 95, len(grid()))
    )
    figure = selection_plot(pairs, 0.3)
    for axes in figure.axes[2:]:
        low, high = axes.get_xlim()
        assert max(axes.get_xticks()) <= 100 and high <= 100 + 0.05 * (high - low) + 1e-9
    assert figure.axes[3].get_xlim()[1] > 100


def test_sensitivity_has_a_row_for_each_data_set_and_counts_the_seeds_of_each():
    seeds_of = {"cifar10": (0, 1, 2), "digits": (3,)}
    lines = [
        {
            "dataset": name,
            "seed": seed,
            "epoch": epoch,
            "P_s": 0.1,
            "A_image": 1.0,
            "A_token": 2.0,
            "A_both": 3.0,
        }
        for name, seeds in seeds_of.items()
        for seed in seeds
        for epoch in (0, 1)
    ]
    figure = sensitivity_plot(pd.DataFrame(lines))
    assert [axes.get_title(loc="left") for axes in figure.axes[::2]] == list(seeds_of)
    assert figure.get_supxlabel().endswith("over n = 1 to 3 seeds")
