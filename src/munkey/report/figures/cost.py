"""Forgetting against its cost: how much is left of what was deleted, and the seconds that deleting it takes."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from munkey.audits.rows import DEPLOYED
from munkey.report.audits import named
from munkey.report.figures import scatter
from munkey.report.figures.scatter import Point
from munkey.report.figures.shares import MARKS, STYLES, Limits, limits, verdict
from munkey.report.figures.theme import BLACK, DOUBLE, THEME, canvas, checked, freeze

COLUMNS = ["name", "family", "title", "role", "path", "share", "share_low", "share_high", "verdict"]
TIMES = ["method", "rate", "unlearn_s_mean", "train_s_mean"]


@matplotlib.rc_context(THEME)
def draw(summary: pd.DataFrame, audit: pd.DataFrame, emphasized: str) -> Figure:
    """A named point for each method and each oracle of a data set; an oracle's seconds are those of its training.

    summary: of that data set, with the columns TIMES; seconds are those at its largest rate. audit: rows as
    `munkey.audits.rows` makes them. Bars are 95 % intervals; one that has no end goes to the edge. Raises ValueError
    where no row has both a share and a time.
    """
    times = checked(summary, TIMES, ["rate"], "cost")
    largest = times[times["rate"] == times["rate"].max()].set_index("method")
    rows = checked(audit, COLUMNS, ["share"], "cost")
    rows = rows[(rows["path"] == DEPLOYED) & rows["role"].isin(["method", "oracle"])]
    seconds = rows["name"].map(largest["unlearn_s_mean"].fillna(largest["train_s_mean"]))
    rows = checked(rows.assign(x=seconds).dropna(subset="x"), [*COLUMNS, "x"], ["x"], "cost")
    ends = limits(rows)
    points = [_point(line, ends, emphasized) for _, line in rows.iterrows()]
    figure = canvas(DOUBLE, 3.6)
    axes = figure.subplots()
    scatter.draw(axes, points)
    for value, words in MARKS.items():
        axes.axhline(value, color=BLACK, linewidth=0.8, zorder=1)
        axes.annotate(words, (1, value), xycoords=("axes fraction", "data"), xytext=(2, 0), textcoords="offset points",
                      va="center", annotation_clip=False)  # fmt: skip
    rate = f"{100 * times['rate'].max():g} %"
    axes.set(ylim=ends, xlabel=f"time to forget {rate} of the training set [s]", ylabel="left of what was deleted [%]")
    _legend(figure, rows)
    freeze(figure)
    scatter.name(axes, points, emphasized, list(MARKS))
    return figure


def _point(line: pd.Series, ends: Limits, emphasized: str) -> Point:
    """A row of the audit as a point that looks like its verdict."""
    style, size = STYLES[verdict(line)], 8.0 if named(line) == emphasized else 5.0
    low, share, high = np.clip([line["share_low"], line["share"], line["share_high"]], *ends)
    return Point(named(line), line["x"], share, low, high, style.color, style.marker, size)


def _legend(figure: Figure, rows: pd.DataFrame) -> None:
    """The verdicts that occur; the controls among them are the oracles."""
    present = {verdict(line) for _, line in rows.iterrows()}
    shown = {name: style for name, style in STYLES.items() if name in present}
    handles = [Line2D([], [], linestyle="none", marker=style.marker, color=style.color) for style in shown.values()]
    words = ["retrained" if name == "control" else style.words for name, style in shown.items()]
    figure.legend(handles, words, loc="outside upper center", ncols=len(words))
