"""Forgetting against utility: the time that unlearning takes, and the gap to the oracle."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, ScalarFormatter
from matplotlib.transforms import Bbox

from munkey.report.figures.labels import label_points
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

# Keyword arguments of points, as matplotlib wants them.
EMPHASIZED: Any = {"marker": "*", "markersize": 11, "color": VERMILLION, "elinewidth": 1.2, "zorder": 4}
OTHER: Any = {"marker": "o", "markersize": 4, "color": BLUE, "ecolor": "#9db8cc", "elinewidth": 0.8, "zorder": 3}
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
    frame = _points(summary)
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
            _panel(axes, part, emphasized)
            axes.set_title(f"{datasets[row]}, {100 * rates[column]:g} % forgotten, {seed_count(part['n'])}", loc="left")
            panels.append((axes, part))
    freeze(figure)
    for axes, part in panels:
        names, xs, ys = (part[name].tolist() for name in ("title", "unlearn_s_mean", "gap_mean"))
        label_points(axes, xs, ys, names, _obstacles(axes, part), emphasized)
    return figure


def _points(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows with both a time and a gap."""
    frame = checked(summary, COLUMNS, ["n"], "forgetting")
    complete = frame.dropna(subset=["unlearn_s_mean", "gap_mean"])
    if (complete["unlearn_s_mean"] <= 0).any():
        raise ValueError("forgetting: times must be positive, the axis is logarithmic")
    return complete


def _panel(axes: Axes, part: pd.DataFrame, emphasized: str) -> None:
    for _, row in part.iterrows():
        spread = 0.0 if pd.isna(row["gap_sd"]) else row["gap_sd"]
        bar = [[min(spread, row["gap_mean"])], [spread]]
        look = EMPHASIZED if row["title"] == emphasized else OTHER
        axes.errorbar(row["unlearn_s_mean"], row["gap_mean"], bar, **look)
    top = 1.15 * (part["gap_mean"] + part["gap_sd"].fillna(0)).max() + 0.2
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_yscale("function", functions=(lambda gap: np.sqrt(np.maximum(gap, 0)), np.square))
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in TICKS if tick <= top]))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.set(xlabel="time to unlearn [s]", ylabel="Avg Gap [percentage points],\nsquare-root scale")
    axes.set_title("↙ better", loc="right", fontweight="bold", color=GREEN)


def _obstacles(axes: Axes, part: pd.DataFrame) -> list[Bbox]:
    """Boxes in pixels around markers and error bars."""
    boxes = []
    for _, row in part.fillna({"gap_sd": 0.0}).iterrows():
        x, y, spread = row["unlearn_s_mean"], row["gap_mean"], row["gap_sd"]
        ends = [(x, max(y - spread, 0)), (x, y), (x, y + spread)]
        (across, low), (_, middle), (_, high) = axes.transData.transform(ends)
        boxes.append(Bbox.from_extents(across - 2, low, across + 2, high))
        boxes.append(Bbox.from_extents(across - 7, middle - 7, across + 7, middle + 7))
    return boxes
