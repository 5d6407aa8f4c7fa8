"""Ranks of methods by the gap of each seed, and which of them a run tells apart (Demšar 2006).

At every seed and rate the methods are ranked; equal gaps share the mean of their ranks. The tests
compare blocks that must be independent of each other. A block is a seed of a data set; its rates
are not blocks of their own, because they start from the same trained models. So the ranks of a seed
are averaged over its rates and ranked again. Friedman's test says whether the methods differ at
all; if it does, Nemenyi's says which two do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # planning imports this file, and nothing heavy
    import pandas as pd

    from munkey.report.tables.markup import TitledTable
    from munkey.report.tables.summary import Row

FEWEST_BLOCKS = 5  # with fewer, the distributions that the tests assume are far off
FEWEST_METHODS = 3
LEVEL = 0.05
DIGITS = 6  # gaps that differ by less differ by rounding alone
BLOCK = ["dataset", "seed"]
LINE = [*BLOCK, "rate"]
REMARK = (
    "At every seed and rate, methods are ranked by the gap to their own oracle; 1 is the best. The rates of a seed"
    " start from the same trained models, so only seeds are independent, and the tests count seeds. The smaller"
    " critical difference would hold if rates were independent too; it claims too much. Where Friedman's p is 0.05 or"
    " more, no two methods are told apart, however far apart their ranks."
)


@dataclass(frozen=True)
class RankTest:
    """The result of ranking methods over blocks.

    Attributes
    ----------
    mean
        The mean rank of each method, the best first.
    blocks
        The number of blocks.
    p
        The p-value of Friedman's test that all methods are alike.
    difference
        The critical difference: methods whose mean ranks are at least this far apart differ.
    pairs
        P-values of Nemenyi's test for each two methods; all 1 where Friedman's test does not say
        that any differ.
    """

    mean: "pd.Series[float]"
    blocks: int
    p: float
    difference: float
    pairs: "pd.DataFrame"

    @property
    def friedman(self) -> str:
        """Friedman's test in words."""
        if self.p < 0.0005:
            return "Friedman p < 0.001"
        return f"Friedman p = {self.p:.3f}"


def has_enough_blocks(blocks: int, methods: int) -> bool:
    """Return whether there is enough to rank."""
    return blocks >= FEWEST_BLOCKS and methods >= FEWEST_METHODS


def describe_shortage(blocks: "pd.DataFrame") -> str:
    """Return a phrase that says how many seeds or methods are missing to rank; empty if there are enough.

    Parameters
    ----------
    blocks
        Ranks of M methods in B blocks, (B, M).
    """
    count, methods = blocks.shape
    if has_enough_blocks(count, methods):
        return ""
    need = f"{FEWEST_BLOCKS} seeds and {FEWEST_METHODS} methods that have a gap everywhere"
    return f"ranks need {need}; here are {count} and {methods}: add to `seeds` or `methods`"


def compute_ranks(gaps: "pd.DataFrame") -> "pd.DataFrame":
    """Return the ranks of the methods within each line.

    A method that has no gap in one of the lines is left out: it cannot be ranked there, and a line
    without it would rank the others among fewer.

    Parameters
    ----------
    gaps
        A line for each data set, seed and rate, a column for each method.
    """
    return gaps.dropna(axis="columns").round(DIGITS).rank(axis="columns")


def rank_methods(tidy: "pd.DataFrame", rows: "Sequence[Row]") -> "pd.DataFrame":
    """Return a line of ranks for each data set, seed and rate, a column for each method, named by its title.

    Originals and oracles are not ranked. Its CSV file is read with `set_index(LINE)`.

    Parameters
    ----------
    tidy
        Tidy metrics with the gap of each seed (`with_seed_gaps`).
    """
    titles = {row.name: row.title for row in rows if row.is_ranked}
    gaps = tidy[(tidy["metric"] == "gap") & tidy["method"].isin(titles)]
    wide = gaps.pivot(index=LINE, columns="method", values="value")
    ordered = wide.reindex(columns=list(titles)).rename(columns=titles)
    return compute_ranks(ordered.rename_axis(columns=None))


def rank_by_seed(ranks: "pd.DataFrame") -> "pd.DataFrame":
    """Return the blocks: ranks of each data set and seed, from the mean over its rates.

    Parameters
    ----------
    ranks
        From `compute_ranks`.
    """
    return ranks.groupby(level=BLOCK).mean().round(DIGITS).rank(axis="columns")


def describe_blocks(ranks: "pd.DataFrame") -> str:
    """Return how many blocks ranks have, in words.

    Parameters
    ----------
    ranks
        From `compute_ranks`.
    """
    blocks = rank_by_seed(ranks).index
    if blocks.get_level_values("dataset").nunique() > 1:
        return f"{len(blocks)} pairs of data set and seed"
    return f"{len(blocks)} seeds"


def compare_ranks(blocks: "pd.DataFrame") -> RankTest:
    """Test whether methods differ over blocks (B, M) of ranks, and which two do.

    Raises ValueError where there are too few blocks or methods.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman
    from scipy.stats import friedmanchisquare

    count, methods = blocks.shape
    if describe_shortage(blocks):
        raise ValueError(describe_shortage(blocks))
    # Where all ranks are equal, Friedman's statistic is 0 / 0, and no methods differ.
    p = 1.0
    if (blocks.nunique(axis="columns") > 1).any():
        p = friedmanchisquare(*blocks.to_numpy().T).pvalue
    mean = blocks.mean().sort_values(kind="stable")
    pairs = posthoc_nemenyi_friedman(blocks.reset_index(drop=True))
    if p >= LEVEL:
        pairs[:] = 1.0
    return RankTest(mean, count, float(p), compute_critical_difference(methods, count), pairs)


def compute_critical_difference(methods: int, blocks: int) -> float:
    """Return the smallest difference of two mean ranks that is significant in Nemenyi's test at 5 %."""
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1 - LEVEL, methods, math.inf))
    return quantile * math.sqrt(methods * (methods + 1) / blocks / 12)


def make_rank_table(ranks: "pd.DataFrame", rows: "Sequence[Row]" = ()) -> "TitledTable":
    """Return a line for each method, the best first, with its mean ranks and the methods that it differs from.

    Mean ranks are by seed, by seed and rate, and at each rate. If there are too few seeds or
    methods, the title says so.

    Parameters
    ----------
    ranks
        The result of `ranks_by_title`.
    rows
        The rows of the main table; the remark names those that are not ranked.
    """
    import pandas as pd

    from munkey.report.tables.markup import ABSENT, TitledTable, format_percent

    titles = [row.title for row in rows if row.is_ranked]
    unranked = [title for title in titles if title not in ranks.columns]
    remark = ""
    if unranked:
        remark = f"Not ranked, since it lacks a gap somewhere: {', '.join(unranked)}."
    missing = describe_shortage(rank_by_seed(ranks))
    if missing:
        return TitledTable(
            missing[0].upper() + missing[1:], pd.DataFrame({"Method": titles}), remark
        )
    test = compare_ranks(rank_by_seed(ranks))
    by_rate = ranks.groupby(level="rate").mean().sort_index(ascending=False)
    rates = list(map(float, by_rate.index))
    lines = []
    for title, mean in test.mean.items():
        cells = {
            "Method": title,
            "Rank, by seed": f"{mean:.2f}",
            "by seed and rate": f"{ranks[title].mean():.2f}",
        }
        for rate, rank in zip(rates, by_rate[str(title)], strict=True):
            cells[f"at {format_percent(rate)}"] = f"{rank:.2f}"
        p_values = test.pairs[title].reindex(test.mean.index)
        others = p_values.index[p_values < LEVEL]
        cells["told apart from"] = ", ".join(map(str, others)) or ABSENT
        lines.append(cells)
    datasets = ", ".join(dict.fromkeys(ranks.index.get_level_values("dataset")))
    if_independent = compute_critical_difference(len(ranks.columns), len(ranks))
    title = (
        f"{datasets}: mean ranks of {len(ranks.columns)} methods by Avg Gap, n = {describe_blocks(ranks)};"
        f" {test.friedman}; critical difference {test.difference:.2f} by seed ({if_independent:.2f} if all"
        f" {len(ranks)} pairs of seed and rate were independent)"
    )
    return TitledTable(title, pd.DataFrame(lines), remark)
