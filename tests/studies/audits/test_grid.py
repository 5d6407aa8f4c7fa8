"""The table and the figure of an audit's grid."""

import numpy as np
import pandas as pd
import pytest

from munkey.audits.grid import Setting, make_grid_rows
from munkey.core.diverged import make_nan_logits
from munkey.core.files import read_npz, write_npz
from munkey.studies.audits.grid_figure import grid_plot
from munkey.studies.audits.tables import list_knobs, make_grid_table
from tests.audits.test_grid import PATHS, setting  # noqa: F401
from tests.studies.audits.drawings import audited


@pytest.fixture
def grid() -> pd.DataFrame:
    return audited()


def test_only_knobs_that_differ_are_named(grid):
    assert list_knobs(grid) == ["munkey.p_token"]
    grid.loc[0:1, "train.crop_scale"] = "[1.0, 1.0]"
    assert list_knobs(grid) == ["munkey.p_token", "train.crop_scale"]


def test_a_line_for_each_setting_with_its_paths_side_by_side(grid):
    grid.loc[0:1, "train.crop_scale"] = "[1.0, 1.0]"
    titled = make_grid_table(grid, "digits")
    assert (
        titled.title
        == "digits: 4 pairs of models for each setting; Spearman's correlation of P_s and share: 1.00"
    )
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


def test_beside_a_model_with_a_head_stands_what_the_head_alone_has(grid):
    grid["alone_after"] = [96.44, 96.44, np.nan, np.nan, np.nan, np.nan]
    assert make_grid_table(grid, "digits").frame["TA after, head alone"].tolist() == [
        "96.4",
        "–",
        "–",
    ]


def test_the_figure_shows_each_share_and_what_lies_beyond_as_an_arrow(grid):
    shares, *others = grid_plot(grid).axes
    dots = {line.get_label(): line for line in shares.lines}["as deployed, 95%"]
    assert dots.get_xdata().tolist() == [3.0, 20.0, shares.get_xlim()[1]]
    arrows = [line for line in shares.lines if line.get_marker() == ">" and len(line.get_xdata())]
    assert [line.get_ydata().tolist() for line in arrows] == [[2]]
    assert others[1].lines[0].get_xdata().tolist() == [0.05, 0.15, 0.3]


def test_a_setting_that_diverged_has_a_line_without_numbers_and_is_not_drawn(setting, tmp_path):  # noqa: F811
    point, forgotten = setting
    write_npz(
        tmp_path / "gone.npz",
        make_nan_logits(read_npz(point["after"][0], "ids", "labels", "splits"), 2, "why; log: x"),
    )
    gone = Setting(
        **{
            **point,
            "name": "p_token-0.9",
            "knobs": {"munkey.p_token": 0.9},
            "after": [str(tmp_path / "gone.npz")],
        }
    )
    rows = pd.DataFrame(
        [line for lines in make_grid_rows([point, gone], PATHS, forgotten, {}) for line in lines]
    )
    table = make_grid_table(rows, "digits")
    assert (
        list(table.frame.iloc[1])[:3] == ["0.9", "diverged", "–"]
        and table.remark == "Diverged: p_token-0.9, why; log: x."
    )
    assert grid_plot(rows).axes
