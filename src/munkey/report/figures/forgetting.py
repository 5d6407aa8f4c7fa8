"""The figure of forgetting and its cost: the gap to the oracle and the seconds of unlearning."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from munkey.report.figures import theme
from munkey.report.tables.markup import percent

TICKS = (0, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # of the gap [percentage points]
RATE_OFFSET = 0.3  # vertical distance between the points of successive rates, in rows


@matplotlib.rc_context(theme.THEME)
def gap_plot(summary: pd.DataFrame, emphasized: str, width: float = theme.DOUBLE) -> Figure:
    """Draw the gap and the unlearning time of each method, in two panels per data set.

    Each method has a row, and rows are sorted by the gap at the largest rate. Error bars end at 0,
    the smallest possible gap. The gap has a square-root scale, so that one method that failed does
    not squeeze all others together.

    Parameters
    ----------
    summary
        The columns are dataset, rate, title, unlearn_s_mean, gap_mean, gap_sd and n. Rows without a
        time (originals) or without a gap (oracles, KNN) are left out. If no rows remain, the figure
        says so.
    emphasized
        The title of the method to emphasize.
    width
        The width of the figure in inches.
    """
    frame = summary.dropna(subset=["unlearn_s_mean", "gap_mean"]).fillna({"gap_sd": 0.0})
    if frame.empty:
        figure = theme.make_canvas(width, 1.0)
        figure.text(
            0.5, 0.5, "No method has both a gap and a time to unlearn.", ha="center", va="center"
        )
        return theme.freeze(figure)
    rates = sorted(frame["rate"].unique(), reverse=True)
    parts = []
    for _, part in frame.groupby("dataset"):
        parts.append(part.sort_values(["rate", "gap_mean"], ascending=[False, True]))
    method_counts = [part["title"].nunique() for part in parts]
    part_heights = [0.8 + theme.LINE_HEIGHT * count for count in method_counts]
    figure = theme.make_canvas(width, 0.3 + sum(part_heights))
    grid = figure.subplots(
        len(parts), 2, squeeze=False, sharey="row", width_ratios=(3, 2), height_ratios=method_counts
    )
    for part, (gaps, seconds) in zip(parts, grid, strict=True):
        _draw_panels(gaps, seconds, part, rates, width, emphasized)
    handles = []
    for number, rate in enumerate(rates):
        label = f"{percent(rate)} forgotten"
        handles.append(Line2D([], [], linestyle="none", label=label, **theme.point_style(number)))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(rates))
    return theme.freeze(figure)


def _draw_panels(
    gaps: Axes,
    seconds: Axes,
    part: pd.DataFrame,
    rates: Sequence[float],
    width: float,
    emphasized: str,
) -> None:
    """Draw the two panels of one data set, with methods in the order of `part`."""
    names = list(part["title"].unique())
    for number, rate in enumerate(rates):
        at_rate = part[part["rate"] == rate]
        style = theme.point_style(number)
        offset = RATE_OFFSET * (number - (len(rates) - 1) / 2)
        # Series.map would return a series of text if the data set lacks this rate, and matplotlib
        # would treat the axis as categorical.
        places = [names.index(title) + offset for title in at_rate["title"]]
        ends = [np.minimum(at_rate["gap_mean"], at_rate["gap_sd"]), at_rate["gap_sd"]]
        bars: dict[str, Any] = {
            "xerr": ends,
            "ecolor": (style["color"], 0.5),
            "elinewidth": 0.9,
            "capsize": 2,
        }
        gaps.errorbar(at_rate["gap_mean"], places, linestyle="none", zorder=3, **bars, **style)
        seconds.plot(at_rate["unlearn_s_mean"], places, linestyle="none", zorder=3, **style)
    theme.name_lines(gaps, names, emphasized)
    seconds.set(xscale="log", xlabel="time to unlearn [s]")
    seconds.margins(x=0.08)
    seconds.xaxis.set_major_locator(LogLocator(numticks=10))
    seconds.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    seconds.xaxis.set_minor_formatter(NullFormatter())
    seconds.tick_params(axis="y", length=0, labelleft=False)
    seconds.spines["left"].set_visible(False)
    top = 1.15 * (part["gap_mean"] + part["gap_sd"]).max() + 0.2
    gaps.set_xscale("function", functions=(lambda gap: np.sqrt(np.maximum(gap, 0)), np.square))
    gaps.set(
        xlim=(0, top),
        xlabel=theme.wrap_words("Avg Gap [percentage points], square-root scale", width, 24),
    )
    ticks = np.array(TICKS)
    if width < theme.DOUBLE:  # there is only room for whole numbers
        ticks = ticks[ticks % 1 == 0]
    gaps.xaxis.set_major_locator(FixedLocator(ticks[ticks <= top]))
    gaps.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    for axes in (gaps, seconds):
        axes.grid(axis="x", color=theme.BAND, linewidth=0.6)
        axes.set_axisbelow(True)
    gaps.set_title(
        f"{part['dataset'].iloc[0]}, {theme.format_seed_range(part['n'])}: further left is better",
        loc="left",
    )
