"""The terminal shows tables without markup, and none that is wider than a screen."""

import re

import pytest

from munkey.report.tables.terminal import WIDTH, render_plain
from tests.conftest import ROOT

TABLE = """### digits: mean, percent

| Method   | left   | TA @10%   | Gap @10%   | TA @2%   | Gap @2%      |
|:---------|:-------|:-----------|:------------|:----------|:--------------|
| CF       | –      | 98.44      | **0.96**    | 98.22     | <u>1.02</u>   |
| MUNKEY   | 4.7    | 96.07      | 1.24        | 96.07     | 0.68          |
"""
WHOLE = """digits: mean, percent

Method  left  TA @10%  Gap @10%  TA @2%  Gap @2%
------  ----  -------  --------  ------  -------
CF      –     98.44    0.96      98.22   1.02
MUNKEY  4.7   96.07    1.24      96.07   0.68
"""
BY_RATE = """digits: mean, percent

Method  left  TA @10%  Gap @10%
------  ----  -------  --------
CF      –     98.44    0.96
MUNKEY  4.7   96.07    1.24

Method  TA @2%  Gap @2%
------  ------  -------
CF      98.22   1.02
MUNKEY  96.07   0.68
"""


@pytest.mark.parametrize(
    ("width", "expected"), [(WIDTH, WHOLE), (50, WHOLE), (49, BY_RATE), (36, BY_RATE)]
)
def test_columns_that_do_not_fit_are_in_a_table_below_with_the_names(width, expected):
    assert render_plain(TABLE, width) == expected


def test_columns_of_a_rate_are_parted_only_if_they_must_be():
    lines = render_plain(TABLE, 20).splitlines()
    assert max(map(len, lines)) <= 20
    assert lines[:2] == ["digits: mean,", "percent"]
    assert [line for line in lines if line.startswith("Method")] == [
        "Method  left", "Method  TA @10%", "Method  Gap @10%", "Method  TA @2%", "Method  Gap @2%",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/results").rglob("tables/*.md")), ids=lambda path: path.stem
)
def test_the_tables_of_the_docs_fit_and_lose_no_number(path):
    text = path.read_text()
    plain = render_plain(text)
    assert max(map(len, plain.splitlines())) <= WIDTH
    assert set(re.findall(r"[\d.]+", text)) == set(re.findall(r"[\d.]+", plain))
