"""What a verdict quotes of simulated audits: the nearest kind that is no easier, and the kinds that are kept."""

import itertools
import re

import pytest

from benchmarks import gauntlet
from munkey.audits import power
from munkey.audits.power import Power, describe_power, find_nearest_power, read_simulated_audits
from munkey.audits.verdict import ALPHA
from munkey.report.tables.comparisons import compute_wilson_interval
from tests.conftest import ROOT

KINDS = tuple(
    Power(pool, pairs, auroc, int(auroc) - 50, 30, pairs, 30)
    for pool, pairs, auroc in itertools.product((100, 216), (3, 8), (56.0, 66.0, 75.0))
)


@pytest.fixture
def kinds(monkeypatch):
    monkeypatch.setattr(power, "read_simulated_audits", lambda: KINDS)


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize(
    ("audit", "kind"),
    [
        ((216, 8, 66.0), (216, 8, 66.0)),
        ((360, 4, 70.5), (216, 3, 66.0)),
        ((10_000, 3, 58.4), (216, 3, 56.0)),
        ((150, 20, 99.0), (100, 8, 75.0)),
        ((216, 8, 54.9), (216, 8, 56.0)),  # less was memorized than in any
    ],
)
def test_the_kind_is_the_nearest_that_is_no_easier(audit, kind):
    row = find_nearest_power(*audit)
    assert (row.pool, row.pairs, row.auroc) == kind


@pytest.mark.usefixtures("kinds")
def test_nothing_is_claimed_of_an_audit_smaller_than_any_simulated_one():
    assert find_nearest_power(99, 8, 75.0) is None
    assert find_nearest_power(216, 2, 75.0) is None
    assert "is not known" in describe_power(99, 8, 75.0)
    assert "is not known" in describe_power(216, 8, None)


@pytest.mark.usefixtures("kinds")
def test_the_description_names_the_kind_and_how_many_audits_found_something():
    words = describe_power(250, 9, 70.0)
    for part in ("5% ", "16 of 30", "216 samples, 8 pairs", "AUROC 66", "20% ", "8 of 30"):
        assert part in words
    assert "at most 6 of 30" in describe_power(216, 8, 54.9)


def test_the_kept_kinds_are_of_two_levels_of_memorization_and_8_4_and_3_pairs():
    assert {row.pairs for row in read_simulated_audits()} == {3, 4, 8}
    for pairs in (3, 4, 8):
        levels = sorted(row.auroc for row in read_simulated_audits() if row.pairs == pairs)
        assert levels == pytest.approx([66, 77], abs=2)


def test_verdicts_quote_the_lowest_count_on_the_page_over_all_worlds():
    """The rows of the table, `k of n (tests)`, in the order of its columns."""
    *tables, _, _, other_worlds = (ROOT / "docs/results/gauntlet.md").read_text().split("### ")[1:]
    for level, about in enumerate(gauntlet.ABOUT[:2]):
        heads = _cells(tables[level], "What is audited")
        for words, name in gauntlet.QUOTED.items():
            of_worlds = [_cells(tables[level], words)]
            for kind in gauntlet.KINDS:
                if kind != gauntlet.PLAIN:
                    of_worlds.append(_cells(other_worlds, f"{words}: {kind}, AUROC {about}"))
            for head, cells in zip(heads, zip(*of_worlds, strict=True), strict=True):
                row = _row_of_level(level, *_numbers(head))
                quoted = [getattr(row, name), getattr(row, f"{name}_of")]
                counts = [_numbers(cell)[:2] for cell in cells]
                assert quoted == min(counts, key=lambda count: count[0] / count[1])


def test_retraining_is_flagged_in_no_more_than_7_percent_of_the_kept_audits():
    """Of one table alone: those of the other effects are the same audits."""
    table = (ROOT / "docs/results/gauntlet.md").read_text().split("### ")[1]
    counts = _cells(table, gauntlet.RETRAINED)
    assert counts == ["6 of 100", "2 of 100", "4 of 100"]  # docs/audits.md: 12 of 300
    assert "12 of 300 audits, 4.0% [2.3, 6.9]" in (ROOT / "docs/audits.md").read_text()
    interval = compute_wilson_interval(4.0, 300)
    assert (round(interval.low, 1), round(interval.high, 1)) == (2.3, 6.9)
    assert interval.high <= 100 * (ALPHA + 0.02)


def _numbers(cell):
    return list(map(int, re.findall(r"\d+", cell)))


def _row_of_level(level, pool, pairs):
    """The kept row of this size; level 0 is where most was memorized."""
    rows = [row for row in read_simulated_audits() if (row.pool, row.pairs) == (pool, pairs)]
    return sorted(rows, key=lambda row: -row.auroc)[level]


def _cells(table, words):
    """The cells of a row of a Markdown table, after its first."""
    row = next(line for line in table.splitlines() if line.startswith(f"| {words} "))
    return [cell.strip() for cell in row.split("|")[2:-1]]
