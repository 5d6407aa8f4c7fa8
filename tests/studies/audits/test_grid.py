"""The table and the figure of an audit's grid."""

import itertools

import numpy as np
import pandas as pd
import pytest

from munkey.audits.grid import Setting, make_grid_rows
from munkey.core.diverged import make_nan_logits
from munkey.core.files import read_npz, write_npz
from munkey.studies.audits.grid_figure import grid_plot
from munkey.studies.audits.tables import list_knobs, make_grid_table
from tests.audits.test_grid import PATHS, setting  # noqa: F401
from tests.studies.audits.drawings import grid_rows


@pytest.fixture
def grid() -> pd.DataFrame:
    return grid_rows()


def test_only_knobs_that_differ_are_named(grid):
    assert list_knobs(grid) == ["munkey.p_token"]
    grid.loc[0:1, "train.crop_scale"] = "[1.0, 1.0]"
    assert list_knobs(grid) == ["munkey.p_token", "train.crop_scale"]


def test_each_setting_has_a_line_with_its_paths_side_by_side(grid):
    grid.loc[0:1, "train.crop_scale"] = "[1.0, 1.0]"
    titled = make_grid_table(grid, "digits")
    assert titled.title.startswith("digits: 4 pairs")
    assert titled.frame.iloc[0].to_dict() == {
        "p_token": "0.1",
        "crop_scale": "1–1",
        "residual share [%]": "3.0 [1.0, 5.0]",
        "residual share [%], neighbors averaged": "–",
        "residual share [%], image alone": "6.0",
        "residual share [%], neighbors' tokens alone": "–",
        "put there [scores]": "0.40",
        "P_s": "0.050",
        "VA before": "95.0",
        "VA after": "94.5",
        "TA after": "94.0",
    }
    assert len(titled.frame) == 3


def test_a_grid_of_many_settings_has_a_correlation(grid):
    copies = [grid.assign(setting=grid["setting"] + f"-{number}") for number in range(3)]
    titled = make_grid_table(pd.concat(copies, ignore_index=True), "digits")
    assert titled.title.endswith("P_s and share: 1.00")


def test_the_accuracy_of_a_head_alone_is_beside_that_of_its_model(grid):
    grid["alone_after"] = [96.44, 96.44, np.nan, np.nan, np.nan, np.nan]
    frame = make_grid_table(grid, "digits").frame
    assert frame["TA after, head alone"].tolist() == ["96.4", "–", "–"]


def test_the_figure_shows_each_share_and_an_arrow_for_those_beyond_the_axis(grid):
    shares, *others = grid_plot(grid).axes
    (dots,) = [line for line in shares.lines if line.get_label() == "as deployed, 95%"]
    assert dots.get_xdata().tolist() == [3.0, 20.0, shares.get_xlim()[1]]
    arrows = []
    for line in shares.lines:
        if line.get_marker() == ">":
            arrows += line.get_ydata().tolist()
    assert arrows == [2]
    assert others[1].lines[0].get_xdata().tolist() == [0.05, 0.15, 0.3]


def test_a_setting_that_diverged_has_a_line_without_numbers_and_is_not_drawn(setting, tmp_path):  # noqa: F811
    point, forgotten = setting
    samples = read_npz(point["after"][0], "ids", "labels", "splits")
    write_npz(tmp_path / "diverged.npz", make_nan_logits(samples, 2, "why; log: x"))
    changes = {"name": "p_token-0.9", "knobs": {"munkey.p_token": 0.9}}
    diverged = Setting(**point | changes | {"after": [str(tmp_path / "diverged.npz")]})
    lines = itertools.chain.from_iterable(make_grid_rows([point, diverged], PATHS, forgotten, {}))
    rows = pd.DataFrame(lines)
    table = make_grid_table(rows, "digits")
    assert list(table.frame.iloc[1])[:3] == ["0.9", "diverged", "–"]
    assert table.remark == "Diverged: p_token-0.9, why; log: x."
    assert grid_plot(rows).axes
