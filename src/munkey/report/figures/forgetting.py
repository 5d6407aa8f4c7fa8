"""Forgetting against utility: the time that unlearning takes, and the gap to the oracle."""

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from munkey.report.figures import scatter
from munkey.report.figures.scatter import Point
from munkey.report.figures.theme import (
    BLUE,
    DOUBLE,
    GREEN,
    THEME,
    VERMILLION,
    canvas,
    checked,
    freeze,
    seed_count,
    words,
)

TICKS = (0, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # of the gap, percentage points
COLUMNS = ["dataset", "rate", "title", "unlearn_s_mean", "gap_mean", "gap_sd", "n"]


@matplotlib.rc_context(THEME)
def draw(summary: pd.DataFrame, emphasized: str) -> Figure:
    """Seconds to unlearn against Avg Gap, a named point per method, a panel per data set and rate.

    summary: with the columns dataset, rate, title, unlearn_s_mean, gap_mean, gap_sd, n. Rows without a time (originals)
    or without a gap (oracles, KNN) are left out; where no row is left, the figure says so. emphasized: the title of the
    method that is to stand out.

    Error bars end at 0, the smallest possible gap. The axis of the gap has a square-root scale, so that one failed
    method does not squeeze all the others together. Raises ValueError where a time is not positive.
    """
    frame = _complete(summary)
    if frame.empty:
        return words("No method has both a gap and a time to unlearn.")
    datasets, rates = sorted(frame["dataset"].unique()), sorted(frame["rate"].unique(), reverse=True)
    figure = canvas(DOUBLE if len(rates) > 1 else 4.5, 3.0 * len(datasets))
    grid = figure.subplots(len(datasets), len(rates), squeeze=False)
    panels = []
    for (row, column), axes in np.ndenumerate(grid):
        part = frame[(frame["dataset"] == datasets[row]) & (frame["rate"] == rates[column])]
        axes.set_visible(not part.empty)
        if not part.empty:
            panels.append((axes, [_point(line, emphasized) for _, line in part.iterrows()]))
            _panel(*panels[-1])
            axes.set_title(f"{datasets[row]}, {100 * rates[column]:g} % forgotten, {seed_count(part['n'])}", loc="left")
    freeze(figure)
    for axes, points in panels:
        scatter.name(axes, points, emphasized)
    return figure


def _complete(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows with both a time and a gap."""
    frame = checked(summary, COLUMNS, ["n"], "forgetting")
    complete = frame.dropna(subset=["unlearn_s_mean", "gap_mean"])
    if (complete["unlearn_s_mean"] <= 0).any():
        raise ValueError("forgetting: times must be positive, the axis is logarithmic")
    return complete.fillna({"gap_sd": 0.0})


def _point(line: pd.Series, emphasized: str) -> Point:
    gap, sd = line["gap_mean"], line["gap_sd"]
    color, marker, size = (VERMILLION, "*", 11.0) if line["title"] == emphasized else (BLUE, "o", 4.5)
    return Point(line["title"], line["unlearn_s_mean"], gap, max(gap - sd, 0.0), gap + sd, color, marker, size)


def _panel(axes: Axes, points: Sequence[Point]) -> None:
    scatter.draw(axes, points)
    top = 1.15 * max(point.high for point in points) + 0.2
    axes.set_yscale("function", functions=(lambda gap: np.sqrt(np.maximum(gap, 0)), np.square))
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in TICKS if tick <= top]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda gap, _: f"{gap:g}"))
    axes.set(xlabel="time to unlearn [s]", ylabel="Avg Gap [percentage points],\nsquare-root scale")
    axes.set_title("↙ better", loc="right", fontweight="bold", color=GREEN)
