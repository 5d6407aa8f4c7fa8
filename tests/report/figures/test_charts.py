"""Every kind of chart is drawn from the files that its rule names."""

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import read_npz, write_json, write_npz, write_text
from munkey.report.figures import charts, projection
from munkey.report.figures.charts import CHARTS, ChartSource
from tests.report.figures.test_figures import curve, grid, methods, training


def source(**files):
    return ChartSource(files, "digits", threshold=0.25)


@pytest.fixture
def trace(tmp_path):
    """Sensitivity over the epochs, and tokens and features of 12 samples at three of them."""
    frame, rng = training(), np.random.default_rng(0)
    arrays = {name: frame[name].to_numpy() for name in charts.TRACED}
    for epoch in (0, 10, 5):
        arrays |= {f"{kind}_{epoch}": rng.normal(size=(12, 4)) for kind in ("tokens", "features")}
    write_npz(tmp_path / "trace.npz", arrays | {"labels": np.arange(12, dtype=np.int16) % 3})
    return tmp_path / "trace.npz"


def test_the_curve_over_k_is_that_of_munkey_alone(tmp_path):
    digits = curve()[curve()["dataset"] == "digits"].rename(columns={"k": "value"})
    table = pd.concat(
        [
            digits.assign(knob="inference.k", title="MUNKEY"),
            digits.assign(knob="inference.k", title="Original (M)", TA_mean=0.0),
            digits.assign(knob="keys.encoder", value="resnet18", title="MUNKEY"),
        ]
    )
    write_text(tmp_path / "ablations.csv", table.to_csv(index=False))
    accuracy, _ = CHARTS["neighbors"].draw(source(table=tmp_path / "ablations.csv")).axes
    (line,) = [container.lines[0] for container in accuracy.containers]
    assert line.get_xdata().tolist() == [1, 2, 4, 32]
    assert line.get_ydata().tolist() == digits["TA_mean"].tolist()


def test_sensitivity_is_drawn_from_the_traces_of_all_seeds_with_its_threshold(trace):
    figure = CHARTS["sensitivity"].draw(source(traces=[trace, trace]))
    left, _ = figure.axes
    assert left.get_title(loc="left") == "digits" and figure.get_supxlabel().endswith(
        "over n = 2 seeds"
    )
    assert [line.get_ydata()[0] for line in left.lines if line.get_linestyle() == ":"] == [0.25]


@pytest.mark.parametrize(
    ("left_out", "titles"),
    [
        ("none", ["start (epoch 0)", "middle (epoch 5)", "end (epoch 10)"]),
        ("_5", ["start (epoch 0)", "end (epoch 10)"]),  # one epoch has no middle
    ],
)
def test_tokens_are_drawn_at_the_moments_that_there_are_in_order(
    trace, tmp_path, monkeypatch, left_out, titles
):
    monkeypatch.setattr(projection, "umap_2d", lambda points, seed: points[:, :2])
    write_json(tmp_path / "classes.json", ["a", "b", "c"])
    arrays = {
        name: values for name, values in read_npz(trace).items() if not name.endswith(left_out)
    }
    write_npz(tmp_path / "moments.npz", arrays)
    figure = CHARTS["tokens"].draw(
        source(trace=tmp_path / "moments.npz", classes=tmp_path / "classes.json")
    )
    assert [axes.get_title() for axes in figure.axes[: len(titles)]] == titles


def test_the_table_of_the_selection_is_drawn_and_the_methods_of_the_summary(tmp_path):
    write_text(tmp_path / "table.csv", grid().to_csv(index=False))
    _, sensitivity, *_ = CHARTS["selection"].draw(source(table=tmp_path / "table.csv")).axes
    assert [line.get_xdata()[0] for line in sensitivity.lines if line.get_linestyle() == ":"] == [
        0.25
    ]
    write_text(tmp_path / "main.csv", methods().to_csv(index=False))
    gaps, _ = CHARTS["forgetting"].draw(source(table=tmp_path / "main.csv")).axes
    assert len(gaps.get_yticklabels()) == len(methods())
