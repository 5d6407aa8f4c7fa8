"""The figure of scenarios."""

import numpy as np
import pytest

from munkey.report.tables.summary import Row
from munkey.studies.scenarios.figure import scenarios_plot
from tests.studies.scenarios.drawings import tow_table


def test_tow_is_drawn_with_its_spread_and_number_of_seeds():
    (axes,) = scenarios_plot(tow_table(), [Row("b", "B", "o"), Row("d", "D", "o")]).axes
    assert axes.get_xlabel().endswith("over n = 3 seeds")
    first = tow_table().iloc[0]
    interval = axes.collections[0].get_paths()[0].vertices[:, 0]
    assert interval == pytest.approx(
        [first["ToW"] - first["ToW_sd"], first["ToW"] + first["ToW_sd"]]
    )
    one_seed = tow_table().assign(n=1, ToW_sd=np.nan)
    (axes,) = scenarios_plot(one_seed, [Row("b", "B", "o")]).axes
    assert axes.get_xlabel().endswith("one seed, n = 1")
