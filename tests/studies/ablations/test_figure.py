"""The figure of ablations."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from munkey.core.files import write_text
from munkey.report.figures import theme
from munkey.studies.ablations.figure import neighbors_figure, neighbors_plot
from tests.report.figures.test_figures import DOLLARS
from tests.studies.ablations.drawings import curve


@pytest.fixture
def drawn(monkeypatch):
    """The figures that jobs save."""
    saved = []
    monkeypatch.setattr(theme, "save", lambda figure, path: saved.append(figure))
    return saved


def test_the_k_curve_has_a_line_per_data_set_and_no_bar_below_zero():
    accuracy, gap = neighbors_plot(curve().assign(gap_sd=5.0)).axes
    assert [bar.lines[0].get_ydata().tolist() for bar in accuracy.containers] == [
        [90.125, 90.25, 90.5, 94.0]
    ] * 2
    assert (
        min(segment[:, 1].min() for bar in gap.collections for segment in bar.get_segments()) == 0
    )


def test_a_name_with_dollars_is_drawn_as_it_is():
    figure = neighbors_plot(curve().replace("digits", DOLLARS))
    figure.draw_without_rendering()
    assert any(DOLLARS in text.get_text() for text in figure.findobj(Text))


@pytest.mark.parametrize(
    ("frame", "message"),
    [(curve().iloc[:0], "no rows"), (curve().assign(TA_mean=np.nan), "NaN")],
)
def test_what_cannot_be_drawn_is_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        neighbors_plot(frame)


def test_the_curve_over_k_is_that_of_munkey_alone(tmp_path, drawn):
    digits = curve()[curve()["dataset"] == "digits"].rename(columns={"k": "value"})
    table = pd.concat(
        [
            digits.assign(knob="inference.k", title="MUNKEY"),
            digits.assign(knob="inference.k", title="Original (M)", TA_mean=0.0),
            digits.assign(knob="keys.encoder", value="resnet18", title="MUNKEY"),
        ]
    )
    write_text(tmp_path / "ablations.csv", table.to_csv(index=False))
    neighbors_figure(tmp_path / "ablations.csv", tmp_path / "a.svg")
    accuracy, _ = drawn[0].axes
    (line,) = [container.lines[0] for container in accuracy.containers]
    assert line.get_xdata().tolist() == [1, 2, 4, 32]
    assert line.get_ydata().tolist() == digits["TA_mean"].tolist()
