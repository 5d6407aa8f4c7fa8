"""Ranks of methods by the gap of each seed, and tests of which methods differ (Demšar 2006).

Methods are ranked for every seed and rate; equal gaps share the mean of their ranks. The tests
require independent blocks. Each seed of a data set is one block. Its rates are not separate blocks,
because they start from the same trained models, so a seed's ranks are averaged over its rates and
ranked again. Friedman's test shows whether any methods differ. If so, Nemenyi's test shows which
pairs of methods do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # planning imports this file and must not load heavy libraries
    import pandas as pd

    from munkey.report.tables.markup import TitledTable
    from munkey.report.tables.summary import Row

FEWEST_BLOCKS = 5  # with fewer, the asymptotic distributions of the tests are inaccurate
FEWEST_METHODS = 3
LEVEL = 0.05  # significance level
DIGITS = 6  # smaller differences between gaps are rounding errors
BLOCK = ["dataset", "seed"]
INDEX = [*BLOCK, "rate"]
REMARK = (
    "For every seed and rate, methods are ranked by the gap to their own oracle; 1 is best. The rates of a seed start"
    " from the same trained models, so only seeds are independent, and the tests count seeds. The smaller critical"
    " difference assumes that rates are also independent, which is too optimistic. If Friedman's p is 0.05 or more, no"
    " two methods differ significantly, no matter how far apart their ranks are."
)


@dataclass(frozen=True)
class RankTest:
    """The result of comparing methods by their ranks over blocks.

    Attributes
    ----------
    mean
        The mean rank of each method, best first.
    blocks
        The number of blocks.
    p
        The p-value of Friedman's test that all methods are equal.
    difference
        The critical difference of mean ranks.
    pairs
        The p-values of Nemenyi's test for each pair of methods. All are 1 if Friedman's test is not
        significant.
    """

    mean: "pd.Series[float]"
    blocks: int
    p: float
    difference: float
    pairs: "pd.DataFrame"

    @property
    def friedman(self) -> str:
        """A phrase with the p-value of Friedman's test."""
        if self.p < 0.0005:
            return "Friedman p < 0.001"
        return f"Friedman p = {self.p:.3f}"


def has_enough_blocks(blocks: int, methods: int) -> bool:
    """Return whether there are enough blocks and methods for the tests."""
    return blocks >= FEWEST_BLOCKS and methods >= FEWEST_METHODS


def describe_shortage(blocks: "pd.DataFrame") -> str:
    """Return a phrase that states how many seeds and methods the tests need and how many there are.

    The phrase is empty if there are enough.

    Parameters
    ----------
    blocks
        Ranks of M methods in B blocks, (B, M).
    """
    count, methods = blocks.shape
    if has_enough_blocks(count, methods):
        return ""
    return (
        f"ranks need at least {FEWEST_BLOCKS} seeds and {FEWEST_METHODS} methods that have a gap"
        f" everywhere; there are {count} and {methods}: add to `seeds` or `methods`"
    )


def compute_ranks(gaps: "pd.DataFrame") -> "pd.DataFrame":
    """Return the ranks of the methods within each row.

    A method that has no gap in some row is left out of all rows. Otherwise, the other methods would
    be ranked among fewer competitors in that row.

    Parameters
    ----------
    gaps
        One row per data set, seed and rate, and one column per method.
    """
    return gaps.dropna(axis="columns").round(DIGITS).rank(axis="columns")


def rank_by_title(tidy: "pd.DataFrame", rows: "Sequence[Row]") -> "pd.DataFrame":
    """Return ranks with one row per data set, seed and rate, and one column per method title.

    Originals and oracles are not ranked. To read the table back from CSV, call `set_index(INDEX)`.

    Parameters
    ----------
    tidy
        Tidy metrics with the gap of each seed (`add_seed_gaps`).
    """
    titles = {row.name: row.title for row in rows if row.is_ranked}
    gaps = tidy[(tidy["metric"] == "gap") & tidy["method"].isin(titles)]
    wide = gaps.pivot(index=INDEX, columns="method", values="value")
    ordered = wide.reindex(columns=list(titles)).rename(columns=titles)
    return compute_ranks(ordered.rename_axis(columns=None))


def rank_by_seed(ranks: "pd.DataFrame") -> "pd.DataFrame":
    """Return the ranks of the methods within each block, by their mean ranks over its rates.

    Parameters
    ----------
    ranks
        The result of `compute_ranks`.
    """
    return ranks.groupby(level=BLOCK).mean().round(DIGITS).rank(axis="columns")


def describe_blocks(ranks: "pd.DataFrame") -> str:
    """Return a phrase that states the number of blocks.

    Parameters
    ----------
    ranks
        The result of `compute_ranks`.
    """
    blocks = rank_by_seed(ranks).index
    if blocks.get_level_values("dataset").nunique() > 1:
        return f"{len(blocks)} pairs of data set and seed"
    return f"{len(blocks)} seeds"


def compare_methods(blocks: "pd.DataFrame") -> RankTest:
    """Test whether methods differ, and which pairs of them do.

    Raises ValueError if there are too few blocks or methods.

    Parameters
    ----------
    blocks
        Ranks of M methods in B blocks, (B, M).
    """
    from scikit_posthocs import posthoc_nemenyi_friedman
    from scipy.stats import friedmanchisquare

    shortage = describe_shortage(blocks)
    if shortage:
        raise ValueError(shortage)
    count, methods = blocks.shape
    if (blocks.nunique(axis="columns") > 1).any():
        p = friedmanchisquare(*blocks.to_numpy().T).pvalue
    else:  # all ranks are equal, so Friedman's statistic would be 0 / 0
        p = 1.0
    mean = blocks.mean().sort_values(kind="stable")
    pairs = posthoc_nemenyi_friedman(blocks.reset_index(drop=True))
    if p >= LEVEL:
        pairs[:] = 1.0
    return RankTest(mean, count, float(p), compute_critical_difference(methods, count), pairs)


def compute_critical_difference(methods: int, blocks: int) -> float:
    """Return the smallest difference of mean ranks that Nemenyi's test finds significant at 5%."""
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1 - LEVEL, methods, math.inf))
    return quantile * math.sqrt(methods * (methods + 1) / blocks / 12)


def make_rank_table(ranks: "pd.DataFrame", rows: "Sequence[Row]" = ()) -> "TitledTable":
    """Return one row per method, best first, with its mean ranks and the methods it differs from.

    Mean ranks are given by seed, by seed and rate, and at each rate. If there are too few seeds or
    methods, the title says so instead.

    Parameters
    ----------
    ranks
        The result of `rank_by_title`.
    rows
        The rows of the main table. The remark lists those that are not ranked.
    """
    import pandas as pd

    from munkey.report.tables.markup import ABSENT, TitledTable, percent

    titles = [row.title for row in rows if row.is_ranked]
    unranked = [title for title in titles if title not in ranks.columns]
    remark = ""
    if unranked:
        remark = f"Not ranked because a gap is missing: {', '.join(unranked)}."
    blocks = rank_by_seed(ranks)
    shortage = describe_shortage(blocks)
    if shortage:
        heading = shortage[0].upper() + shortage[1:]
        return TitledTable(heading, pd.DataFrame({"Method": titles}), remark)
    test = compare_methods(blocks)
    by_rate = ranks.groupby(level="rate").mean().sort_index(ascending=False)
    rates = list(map(float, by_rate.index))
    table_rows = []
    for title, mean in test.mean.items():
        cells = {
            "Method": title,
            "Rank, by seed": f"{mean:.2f}",
            "by seed and rate": f"{ranks[title].mean():.2f}",
        }
        for rate, rank in zip(rates, by_rate[str(title)], strict=True):
            cells[f"at {percent(rate)}"] = f"{rank:.2f}"
        p_values = test.pairs[title].reindex(test.mean.index)
        others = p_values.index[p_values < LEVEL]
        cells["told apart from"] = ", ".join(map(str, others)) or ABSENT
        table_rows.append(cells)
    datasets = ", ".join(dict.fromkeys(ranks.index.get_level_values("dataset")))
    if_independent = compute_critical_difference(len(ranks.columns), len(ranks))
    title = (
        f"{datasets}: mean ranks of {len(ranks.columns)} methods by Avg Gap, n = {describe_blocks(ranks)};"
        f" {test.friedman}; critical difference {test.difference:.2f} by seed ({if_independent:.2f} if all"
        f" {len(ranks)} pairs of seed and rate were independent)"
    )
    return TitledTable(title, pd.DataFrame(table_rows), remark)
