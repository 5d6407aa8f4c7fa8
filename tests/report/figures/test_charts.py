"""Every kind of chart is drawn from the files that its rule names."""

import numpy as np
import pytest

from munkey.core.files import read_npz, write_json, write_npz, write_text
from munkey.report.figures import projection
from munkey.report.figures.charts import CHARTS, ChartSource
from tests.report.designs import method_costs


def chart_source(**files):
    return ChartSource(files, "digits")


@pytest.fixture
def trace(tmp_path):
    """Tokens and features of 12 samples at three epochs."""
    rng = np.random.default_rng(0)
    arrays = {}
    for epoch in (0, 10, 5):
        arrays[f"tokens_{epoch}"] = rng.normal(size=(12, 4))
        arrays[f"features_{epoch}"] = rng.normal(size=(12, 4))
    write_npz(tmp_path / "trace.npz", arrays | {"labels": np.arange(12, dtype=np.int16) % 3})
    return tmp_path / "trace.npz"


@pytest.mark.parametrize(
    ("missing", "titles"),
    [
        ("none", ["start (epoch 0)", "middle (epoch 5)", "end (epoch 10)"]),
        ("_5", ["start (epoch 0)", "end (epoch 10)"]),  # one epoch has no middle
    ],
)
def test_tokens_are_drawn_at_the_moments_of_a_trace_in_order(
    trace, tmp_path, monkeypatch, missing, titles
):
    monkeypatch.setattr(projection, "umap_2d", lambda points, seed: points[:, :2])
    write_json(tmp_path / "classes.json", ["a", "b", "c"])
    arrays = read_npz(trace)
    for name in list(arrays):
        if name.endswith(missing):
            del arrays[name]
    write_npz(tmp_path / "moments.npz", arrays)
    figure = CHARTS["tokens"].draw(
        chart_source(trace=tmp_path / "moments.npz", classes=tmp_path / "classes.json")
    )
    assert [axes.get_title() for axes in figure.axes[: len(titles)]] == titles


def test_the_methods_of_the_summary_are_drawn(tmp_path):
    write_text(tmp_path / "main.csv", method_costs().to_csv(index=False))
    gaps, _ = CHARTS["forgetting"].draw(chart_source(table=tmp_path / "main.csv")).axes
    assert len(gaps.get_yticklabels()) == len(method_costs())
