"""The figure of ablations."""

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import write_text
from munkey.studies.ablations.figure import neighbors_figure, neighbors_plot
from tests.report.inputs import DOLLARS
from tests.studies.ablations.drawings import neighbor_curves
from tests.studies.figures import read_texts


def test_the_neighbors_figure_has_a_line_per_data_set_and_no_bar_below_zero():
    accuracy, gap = neighbors_plot(neighbor_curves().assign(gap_sd=5.0)).axes
    assert len(accuracy.containers) == 2
    for bar in accuracy.containers:
        assert bar.lines[0].get_ydata().tolist() == [90.125, 90.25, 90.5, 94.0]
    segments = []
    for bar in gap.collections:
        segments += bar.get_segments()
    assert np.concatenate(segments)[:, 1].min() == 0


def test_a_name_with_dollars_is_drawn_verbatim():
    figure = neighbors_plot(neighbor_curves().replace("digits", DOLLARS))
    assert DOLLARS in read_texts(figure)


@pytest.mark.parametrize(
    ("frame", "message"),
    [(neighbor_curves().iloc[:0], "no rows"), (neighbor_curves().assign(TA_mean=np.nan), "NaN")],
)
def test_an_empty_or_incomplete_table_is_not_drawn(frame, message):
    with pytest.raises(ValueError, match=message):
        neighbors_plot(frame)


def test_the_neighbors_figure_shows_munkey_alone(tmp_path, figures):
    curves = neighbor_curves().rename(columns={"k": "value"})
    digits = curves[curves["dataset"] == "digits"]
    table = pd.concat(
        [
            digits.assign(knob="inference.k", title="MUNKEY"),
            digits.assign(knob="inference.k", title="Original (M)", TA_mean=0.0),
            digits.assign(knob="keys.encoder", value="resnet18", title="MUNKEY"),
        ]
    )
    write_text(tmp_path / "ablations.csv", table.to_csv(index=False))
    neighbors_figure(tmp_path / "ablations.csv", tmp_path / "a.svg")
    accuracy, _ = figures[0].axes
    (bars,) = accuracy.containers
    assert bars.lines[0].get_xdata().tolist() == [1, 2, 4, 32]
    assert bars.lines[0].get_ydata().tolist() == digits["TA_mean"].tolist()
