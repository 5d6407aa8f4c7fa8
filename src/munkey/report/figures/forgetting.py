"""The figure of forgetting and its cost: the gap to the oracle, and the seconds to unlearn."""

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
from munkey.report.tables.markup import format_percent

TICKS = (0, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # of the gap [percentage points]
RATE_OFFSET = 0.3  # between the points of two rates, in rows


@matplotlib.rc_context(theme.THEME)
def gap_plot(summary: pd.DataFrame, emphasized: str, width: float = theme.DOUBLE) -> Figure:
    """Draw two panels per data set with a row per method, the smallest gap at the largest rate first.

    Error bars end at 0, the smallest possible gap. The axis of the gap has a square-root scale, so
    that one failed method does not squeeze all others together.

    Parameters
    ----------
    summary
        A table with the columns dataset, rate, title, unlearn_s_mean, gap_mean, gap_sd and n. Rows
        without a time (originals) or without a gap (oracles, KNN) are left out. If no row remains,
        the figure says so.
    emphasized
        The title of the method to emphasize.
    width
        Width of the figure in inches.
    """
    frame = summary.dropna(subset=["unlearn_s_mean", "gap_mean"]).fillna({"gap_sd": 0.0})
    if frame.empty:
        return theme.text_figure("No method has both a gap and a time to unlearn.", width)
    rates = sorted(frame["rate"].unique(), reverse=True)
    parts = []
    for _, part in frame.groupby("dataset"):
        parts.append(part.sort_values(["rate", "gap_mean"], ascending=[False, True]))
    row_counts = [part["title"].nunique() for part in parts]
    part_heights = [0.8 + theme.ROW_HEIGHT * count for count in row_counts]
    figure = theme.canvas(width, 0.3 + sum(part_heights))
    grid = figure.subplots(
        len(parts), 2, squeeze=False, sharey="row", width_ratios=(3, 2), height_ratios=row_counts
    )
    for part, (gaps, seconds) in zip(parts, grid, strict=True):
        _draw_panels(gaps, seconds, part, rates, width, emphasized)
    handles = []
    for number, rate in enumerate(rates):
        label = f"{format_percent(rate)} forgotten"
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
    """Draw the two panels of one data set.

    Parameters
    ----------
    part
        The summary of the data set, in the order of the rows.
    """
    names = list(part["title"].unique())
    for number, rate in enumerate(rates):
        at_rate = part[part["rate"] == rate]
        style = theme.point_style(number)
        offset = RATE_OFFSET * (number - (len(rates) - 1) / 2)
        # Without rows at this rate, the `map` of pandas would return a series of text, which
        # matplotlib would take for names of categories.
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
    theme.label_rows(gaps, names, emphasized)
    seconds.set(xscale="log", xlabel="time to unlearn [s]")
    seconds.margins(x=0.08)
    seconds.xaxis.set_major_locator(LogLocator(numticks=10))
    seconds.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    seconds.xaxis.set_minor_formatter(NullFormatter())
    seconds.tick_params(axis="y", length=0, labelleft=False)
    seconds.spines["left"].set_visible(False)
    top = 1.15 * (part["gap_mean"] + part["gap_sd"]).max() + 0.2
    gaps.set_xscale("function", functions=(lambda gap: np.sqrt(np.maximum(gap, 0)), np.square))
    gaps.set(
        xlim=(0, top),
        xlabel=theme.wrap_if_narrow("Avg Gap [percentage points], square-root scale", width, 24),
    )
    ticks = np.array(TICKS)
    if width < theme.DOUBLE:  # there is only room for whole numbers
        ticks = ticks[ticks % 1 == 0]
    gaps.xaxis.set_major_locator(FixedLocator(ticks[ticks <= top]))
    gaps.xaxis.set_major_formatter(FuncFormatter(lambda gap, _: f"{gap:g}"))
    for axes in (gaps, seconds):
        axes.grid(axis="x", color=theme.BAND, linewidth=0.6)
        axes.set_axisbelow(True)
    gaps.set_title(
        f"{part['dataset'].iloc[0]}, {theme.format_seed_range(part['n'])}: further left is better",
        loc="left",
    )
