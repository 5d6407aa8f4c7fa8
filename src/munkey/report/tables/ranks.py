"""Ranks of methods by the gap of each seed, with tests of which methods differ (Demšar 2006).

Methods are ranked at every seed and rate; equal gaps share the mean of their ranks. The tests
compare blocks, which must be independent of each other. A block is a seed of a data set. Its rates
cannot be separate blocks, because they start from the same trained models, so the ranks of a seed
are averaged over its rates and ranked again. Friedman's test shows whether the methods differ at
all. If so, Nemenyi's test shows which pairs differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # planning imports this file, and nothing heavy
    import pandas as pd

    from munkey.report.tables.markup import TitledTable
    from munkey.report.tables.summary import Row

FEWEST_BLOCKS = 5  # with fewer, the tests' assumptions on distributions are far off
FEWEST_METHODS = 3
LEVEL = 0.05
DECIMALS = 6  # gaps that agree to this many decimals count as equal
BLOCK = ["dataset", "seed"]
INDEX = [*BLOCK, "rate"]
REMARK = (
    "At every seed and rate, methods are ranked by the gap to their own oracle; 1 is the best. The rates of a seed"
    " start from the same trained models, so only seeds are independent, and the tests count seeds. The smaller"
    " critical difference would hold if rates were independent too; it claims too much. Where Friedman's p is 0.05 or"
    " more, no two methods differ significantly, however far apart their ranks."
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
        The p-values of Nemenyi's test for each pair of methods; all 1 if Friedman's test is not
        significant.
    """

    mean: "pd.Series[float]"
    blocks: int
    p: float
    difference: float
    pairs: "pd.DataFrame"

    @property
    def friedman(self) -> str:
        """The result of Friedman's test, as text."""
        if self.p < 0.0005:
            return "Friedman p < 0.001"
        return f"Friedman p = {self.p:.3f}"


def has_enough_blocks(blocks: int, methods: int) -> bool:
    """Return whether there are enough blocks and methods to rank."""
    return blocks >= FEWEST_BLOCKS and methods >= FEWEST_METHODS


def describe_shortage(blocks: "pd.DataFrame") -> str:
    """Write why there are too few seeds or methods to rank; empty if there are enough.

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
    """Rank the methods within each row.

    A method without a gap in one of the rows is left out, since it cannot be ranked there, and
    without it, the others would be ranked among fewer methods in this row.

    Parameters
    ----------
    gaps
        A row for each data set, seed and rate, and a column for each method.
    """
    return gaps.dropna(axis="columns").round(DECIMALS).rank(axis="columns")


def rank_methods(tidy: "pd.DataFrame", systems: "Sequence[Row]") -> "pd.DataFrame":
    """Rank the methods by the gap of each seed, for each data set and rate.

    There is a column for each method, named by its title. Originals and oracles are not ranked. To
    read the table's CSV file, use `set_index(INDEX)`.

    Parameters
    ----------
    tidy
        Tidy metrics with the gap of each seed (`with_seed_gaps`).
    """
    titles = {system.name: system.title for system in systems if system.is_ranked}
    gaps = tidy[(tidy["metric"] == "gap") & tidy["method"].isin(titles)]
    wide = gaps.pivot(index=INDEX, columns="method", values="value")
    ordered = wide.reindex(columns=list(titles)).rename(columns=titles)
    return compute_ranks(ordered.rename_axis(columns=None))


def rank_by_seed(ranks: "pd.DataFrame") -> "pd.DataFrame":
    """Rank the methods in each block, a seed of a data set, by their mean ranks over its rates.

    Parameters
    ----------
    ranks
        The result of `compute_ranks`.
    """
    return ranks.groupby(level=BLOCK).mean().round(DECIMALS).rank(axis="columns")


def describe_blocks(ranks: "pd.DataFrame") -> str:
    """Return the number of blocks, e.g. "10 seeds".

    Parameters
    ----------
    ranks
        The result of `compute_ranks`.
    """
    blocks = rank_by_seed(ranks).index
    if blocks.get_level_values("dataset").nunique() > 1:
        return f"{len(blocks)} pairs of data set and seed"
    return f"{len(blocks)} seeds"


def compare_ranks(blocks: "pd.DataFrame") -> RankTest:
    """Test whether the methods differ, and which pairs do.

    Parameters
    ----------
    blocks
        Ranks of M methods in B blocks, (B, M).

    Raises
    ------
    ValueError
        If there are too few blocks or methods.
    """
    from scikit_posthocs import posthoc_nemenyi_friedman
    from scipy.stats import friedmanchisquare

    count, methods = blocks.shape
    shortage = describe_shortage(blocks)
    if shortage:
        raise ValueError(shortage)
    # If all ranks are equal, Friedman's statistic is 0 / 0, and no methods differ.
    p = 1.0
    if (blocks.nunique(axis="columns") > 1).any():
        p = friedmanchisquare(*blocks.to_numpy().T).pvalue
    mean = blocks.mean().sort_values(kind="stable")
    pairs = posthoc_nemenyi_friedman(blocks.reset_index(drop=True))
    if p >= LEVEL:
        pairs[:] = 1.0
    return RankTest(mean, count, float(p), compute_critical_difference(methods, count), pairs)


def compute_critical_difference(methods: int, blocks: int) -> float:
    """Compute the smallest difference of mean ranks that is significant in Nemenyi's test at 5 %."""
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1 - LEVEL, methods, math.inf))
    return quantile * math.sqrt(methods * (methods + 1) / blocks / 12)


def make_rank_table(ranks: "pd.DataFrame", systems: "Sequence[Row]" = ()) -> "TitledTable":
    """Make a table of mean ranks, with a row per method, the best first.

    Mean ranks are by seed, by seed and rate, and at each rate. The last column lists the methods
    that a method differs from. If there are too few seeds or methods, the title says so.

    Parameters
    ----------
    ranks
        The result of `rank_methods`.
    systems
        The systems of the main table. A remark lists those that cannot be ranked.
    """
    import pandas as pd

    from munkey.report.tables.markup import ABSENT, TitledTable, format_percent

    titles = [system.title for system in systems if system.is_ranked]
    unranked = [title for title in titles if title not in ranks.columns]
    remark = ""
    if unranked:
        remark = f"Not ranked, since it lacks a gap somewhere: {', '.join(unranked)}."
    blocks = rank_by_seed(ranks)
    shortage = describe_shortage(blocks)
    if shortage:
        message = shortage[0].upper() + shortage[1:]
        return TitledTable(message, pd.DataFrame({"Method": titles}), remark)
    test = compare_ranks(blocks)
    by_rate = ranks.groupby(level="rate").mean().sort_index(ascending=False)
    rates = list(map(float, by_rate.index))
    rows = []
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
        rows.append(cells)
    datasets = ", ".join(dict.fromkeys(ranks.index.get_level_values("dataset")))
    if_independent = compute_critical_difference(len(ranks.columns), len(ranks))
    title = (
        f"{datasets}: mean ranks of {len(ranks.columns)} methods by Avg Gap, n = {describe_blocks(ranks)};"
        f" {test.friedman}; critical difference {test.difference:.2f} by seed ({if_independent:.2f} if all"
        f" {len(ranks)} pairs of seed and rate were independent)"
    )
    return TitledTable(title, pd.DataFrame(rows), remark)
