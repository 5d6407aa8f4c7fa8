"""The table of ranks, from the gaps of every seed to words."""

from collections.abc import Sequence

import pandas as pd

from munkey.report.tables.markup import ABSENT, Titled
from munkey.report.tables.ranks import (
    BLOCK,
    LEVEL,
    Ranking,
    blocks_in_words,
    by_seed,
    critical_difference,
    ranking,
    ranks_of,
)
from munkey.report.tables.summary import Row

LINE = [*BLOCK, "rate"]
REMARK = (
    "At every seed and rate, methods are ranked by the gap to their own oracle; 1 is the best. The rates of a seed"
    " start from the same trained models, so only seeds are independent, and the tests count seeds. The smaller"
    " critical difference would hold if rates were independent too; it claims too much. Where Friedman's p is 0.05 or"
    " more, no two methods are told apart, however far apart their ranks."
)


def ranks(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """A line of ranks for each data set, seed and rate, a column for each method, named by its title.

    tidy: metrics with the gap of each seed. Originals and what has no oracle are not ranked.
    """
    titles = {row.name: row.title for row in rows if row.oracle and not row.context}
    gaps = tidy[(tidy["metric"] == "gap") & tidy["method"].isin(titles)]
    wide = gaps.pivot(index=LINE, columns="method", values="value")
    return ranks_of(wide.reindex(columns=list(titles)).rename(columns=titles).rename_axis(columns=None))


def read(frame: pd.DataFrame) -> pd.DataFrame:
    """Ranks as they were, from the CSV that they were written to."""
    return frame.set_index(LINE)


def table(ranks: pd.DataFrame) -> Titled:
    """The methods, the best first: mean ranks by seed, by seed and rate, at each rate, and what they differ from."""
    found = ranking(by_seed(ranks))
    rates = ranks.groupby(level="rate").mean().sort_index(ascending=False)
    columns = [f"at {100 * rate:g} %" for rate in map(float, rates.index)]
    lines = [
        {
            "Method": title,
            "Rank, by seed": f"{mean:.2f}",
            "by seed and rate": f"{ranks[title].mean():.2f}",
            **{name: f"{each:.2f}" for name, each in zip(columns, rates[str(title)], strict=True)},
            "told apart from": _told_apart(found, str(title)),
        }
        for title, mean in found.mean.items()
    ]
    return Titled(_title(ranks, found), pd.DataFrame(lines))


def _told_apart(found: Ranking, title: str) -> str:
    """The methods that Nemenyi's test tells from this one."""
    p_values = found.pairs[title].reindex(found.mean.index)
    return ", ".join(map(str, p_values.index[p_values < LEVEL])) or ABSENT


def _title(ranks: pd.DataFrame, found: Ranking) -> str:
    names = ", ".join(dict.fromkeys(ranks.index.get_level_values("dataset")))
    lines, methods = ranks.shape
    return (
        f"{names}: mean ranks of {methods} methods by Avg Gap, n = {blocks_in_words(ranks)}; {found.friedman};"
        f" critical difference {found.difference:.2f} by seed ({critical_difference(methods, lines):.2f} if all"
        f" {lines} pairs of seed and rate were independent)"
    )
