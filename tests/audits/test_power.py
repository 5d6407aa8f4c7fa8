"""What a verdict quotes of simulated audits: the nearest kind that is no easier, and the kinds that are kept."""

import re

import pytest

from benchmarks import gauntlet
from munkey.audits import power
from munkey.audits.power import Power, describe_power, find_nearest_power, read_simulated_audits
from munkey.audits.verdict import ALPHA
from tests.conftest import ROOT

KINDS = tuple(
    Power(pool, pairs, auroc, int(auroc) - 50, 30, pairs, 30)
    for pool in (100, 216)
    for pairs in (3, 8)
    for auroc in (56.0, 66.0, 75.0)
)


@pytest.fixture
def kinds(monkeypatch):
    monkeypatch.setattr(power, "read_simulated_audits", lambda: KINDS)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("own", "kind"),
    [
        ((216, 8, 66.0), (216, 8, 66.0)),
        ((360, 4, 70.5), (216, 3, 66.0)),
        ((10_000, 3, 58.4), (216, 3, 56.0)),
        ((150, 20, 99.0), (100, 8, 75.0)),
        ((216, 8, 54.9), (216, 8, 56.0)),  # less was memorized than in any
    ],
)
def test_the_kind_is_the_nearest_that_is_no_easier(own, kind):
    row = find_nearest_power(*own)
    assert (row.pool, row.pairs, row.auroc) == kind


@pytest.mark.usefixtures("kinds")
def test_of_a_smaller_audit_than_any_nothing_is_claimed():
    assert find_nearest_power(99, 8, 75.0) is None and find_nearest_power(216, 2, 75.0) is None
    assert "is not known" in describe_power(99, 8, 75.0) and "is not known" in describe_power(
        216, 8, None
    )


@pytest.mark.usefixtures("kinds")
def test_the_words_name_the_kind_and_how_many_were_found():
    words = describe_power(250, 9, 70.0)
    assert words == (
        "of 5% of the samples kept whole, 16 of 30 simulated audits (216 samples, 8 pairs, LiRA's AUROC 66 before"
        " deletion, the hardest of several worlds) found something; of 20% of each memory kept less its mean, 8 of 30"
    )
    assert "at most 6 of 30 simulated audits" in describe_power(216, 8, 54.9)


def test_the_kept_kinds_are_of_three_levels_of_memorization_and_8_4_and_3_pairs():
    assert {row.pairs for row in read_simulated_audits()} == {3, 4, 8}
    for pairs in (3, 4, 8):
        levels = sorted(row.auroc for row in read_simulated_audits() if row.pairs == pairs)
        assert levels == pytest.approx([56, 65, 75], abs=2.5)


def test_what_verdicts_quote_is_what_the_page_shows():
    """The rows of the table, `k of n (tests)`, in the order of its columns."""
    tables = (ROOT / "docs/results/gauntlet.md").read_text().split("### ")[1:4]
    for effect, table in zip(gauntlet.EFFECTS, tables, strict=True):
        heads = [
            [int(number) for number in re.findall(r"\d+", head)]
            for head in _cells(table, "What is audited")
        ]
        for words, name in gauntlet.QUOTED.items():
            for (pool, pairs), cell in zip(heads, _cells(table, words), strict=True):
                times, of = map(int, re.match(r"(\d+) of (\d+)", cell).groups())
                levels = sorted(
                    (
                        row
                        for row in read_simulated_audits()
                        if (row.pool, row.pairs) == (pool, pairs)
                    ),
                    key=lambda row: -row.auroc,
                )
                row = levels[gauntlet.EFFECTS.index(effect)]
                assert (getattr(row, name), getattr(row, f"{name}_of")) == (times, of)


def test_retraining_is_flagged_in_no_more_than_7_percent_of_the_kept_audits():
    counts = [0, 0]
    for table in (ROOT / "docs/results/gauntlet.md").read_text().split("### ")[1:4]:
        for words in gauntlet.HONEST:
            for cell in _cells(table, words):
                times, of = map(int, cell.split(" of "))
                counts[0] += times
                counts[1] += of
    assert counts[1] >= 900
    assert counts[0] / counts[1] <= ALPHA + 0.02


def _cells(table, words):
    """The cells of a row of a Markdown table, after its first."""
    row = next(line for line in table.splitlines() if line.startswith(f"| {words} "))
    return [cell.strip() for cell in row.split("|")[2:-1]]
