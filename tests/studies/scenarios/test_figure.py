"""The figure of scenarios."""

import numpy as np
import pytest

from munkey.report.tables.summary import Row
from munkey.studies.scenarios.figure import scenarios_plot
from tests.studies.scenarios.drawings import after_requests


def test_tow_has_its_spread_over_seeds_and_their_number():
    (axes,) = scenarios_plot(after_requests(), [Row("b", "B", "o"), Row("d", "D", "o")]).axes
    assert axes.get_xlabel().endswith("mean ± standard deviation over n = 3 seeds")
    ends = [path.vertices[:, 0] for bars in axes.collections for path in bars.get_paths()]
    frame = after_requests()
    first = frame[
        (frame["rate"] == 0.1) & (frame["case"] == "scenario/class") & (frame["method"] == "b")
    ].iloc[0]
    assert ends[0] == pytest.approx(
        [first["ToW"] - first["ToW_sd"], first["ToW"] + first["ToW_sd"]]
    )
    (alone,) = scenarios_plot(
        after_requests().assign(n=1, ToW_sd=np.nan), [Row("b", "B", "o")]
    ).axes
    assert alone.get_xlabel().endswith("one seed, n = 1")
