"""Forgetting against its cost: how much is left of what was deleted, and the seconds that deleting it takes."""

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from munkey.audits.family_audit import DEPLOYED
from munkey.report.figures import forest, lines
from munkey.report.figures.shares import STYLES, verdict
from munkey.report.figures.theme import DOUBLE, THEME, canvas, checked, freeze

COLUMNS = ["name", *forest.COLUMNS]
TIMES = ["method", "rate", "unlearn_s_mean", "train_s_mean"]


@matplotlib.rc_context(THEME)
def draw(summary: pd.DataFrame, audit: pd.DataFrame, emphasized: str) -> Figure:
    """A line for each method and each oracle of a data set, the least that is left first.

    An oracle's seconds are those of its training. summary: of that data set, with the columns TIMES; seconds are those
    at its largest rate. audit: rows of `munkey.audits.family_audit`. Raises ValueError where no row has both a share
    and a time.
    """
    times = checked(summary, TIMES, ["rate"], "cost")
    largest = times[times["rate"] == times["rate"].max()].set_index("method")
    rows = checked(audit, COLUMNS, ["share"], "cost")
    rows = rows[(rows["path"] == DEPLOYED) & rows["role"].isin(["method", "oracle"])]
    rows = rows.assign(x=rows["name"].map(largest["unlearn_s_mean"].fillna(largest["train_s_mean"]))).dropna(subset="x")
    rows = checked(rows, [*COLUMNS, "x"], ["x"], "cost").sort_values("share", key=abs, ignore_index=True)
    figure = canvas(DOUBLE, 1.1 + lines.HEIGHT * len(rows))
    shares, seconds = figure.subplots(1, 2, sharey=True, width_ratios=lines.WIDTHS)
    forest.panel(shares, rows, emphasized)
    for place, line in rows.iterrows():
        color, marker, _ = STYLES[verdict(line)]
        seconds.plot(line["x"], place, marker=marker, color=color, markersize=5, zorder=3)
    lines.measure_seconds(seconds, f"time to forget {100 * times['rate'].max():g} % of the training set [s]")
    forest.legend(figure, rows)
    return freeze(figure)
