"""The frontier: what each design leaves of what was deleted, against its accuracy, beside its seconds."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from munkey.report.figures import theme
from munkey.report.tables.audits import RESIDUE
from munkey.report.tables.comparisons import accuracy_interval
from munkey.report.tables.markup import two_digits

WIDTH = 5.4  # inches: read without zooming in a README, on a phone too
TICKS = (0, 1, 5, 20, 50, 100)  # percent
SIGNED_TICKS = (-100, -20, -5, -1, 0, 1, 5, 20, 100)  # where something reaches below 0
LINES = 16  # of names have room beside the plot
NAMES = 1.02  # where they begin, in widths of the plot
WIDEST = 150.0  # percent: what is left beyond it is drawn there
STYLES = {  # of kinds: color, marker, words
    "exact": (theme.GREEN, "s", "drops rows, exactly"),
    "rows": (theme.BLUE, "o", "drops rows, weights stay"),
    "weights": (theme.VERMILLION, "^", "changes weights"),
    "anew": (theme.BLACK, "*", "trains anew (reference)"),
}
FRONT: Any = {"color": theme.GRAY, "linestyle": theme.DASHES[1], "linewidth": 1}


def drawn(share: float) -> float:
    """Where a share in percent lies on the axis: nearly linear up to 1 on either side of 0, logarithmic beyond."""
    return float(np.arcsinh(np.clip(share, -WIDEST, WIDEST)))


@matplotlib.rc_context(theme.THEME)
def frontier_plot(points: pd.DataFrame, width: float = WIDTH) -> Figure:
    """points: of `munkey.report.tables.frontier`, one data set. A design is a mark with its 95 % interval and ± over
    seeds (of one seed, the 95 % interval over test samples), its name and its seconds; hollow where no bound holds.
    What over-forgets is left of 0, and upside down. One of which no share is
    known, or that diverged, is left out. The line is the front,
    on both sides of 0 where any mark is on the left. width: inches. Raises ValueError for no rows.
    """
    audited = points.dropna(subset=["share", "TA_mean"])
    if len(points) and audited.empty:
        return theme.words_alone("Nothing is known of any design: models diverged.", width)
    points = theme.checked(audited.sort_values("TA_mean"), ["TA_mean"], "frontier")
    figure = theme.canvas(width, 3.6)
    axes = figure.subplots()
    for _, line in points.iterrows():
        color, marker, _ = STYLES[line["kind"]]
        at = (drawn(line["share"]), line["TA_mean"])
        bars: Any = {
            "xerr": [[at[0] - drawn(line["share_low"])], [drawn(line["share_high"]) - at[0]]],
            "yerr": _accuracy_bar(line),
        }
        axes.errorbar(*at, **bars, fmt="none", ecolor=color, elinewidth=0.8, alpha=0.5, zorder=2)
        face = color if np.isfinite(line["bound"]) else "none"
        size = 8 if marker == "*" else 5.5
        marker = "v" if line["share_high"] < 0 else marker
        axes.plot(*at, marker, color=color, mfc=face, markersize=size, zorder=3)
    front = points[points["front"] & np.isfinite(points["bound"])]
    steps = np.repeat([*map(drawn, [*front["bound"], WIDEST])], 2)[1:-1]
    for side in (1, -1) if (points["share"] < 0).any() else (1,):
        axes.plot(side * steps, np.repeat(front["TA_mean"], 2), zorder=1, **FRONT)
    lowest, _ = axes.get_xlim()
    signed = lowest < drawn(-TICKS[1])
    ticks = [tick for tick in SIGNED_TICKS if drawn(tick) >= lowest] if signed else TICKS
    axes.set_xticks(
        [*map(drawn, ticks)], [f"{tick}".replace("-", "\N{MINUS SIGN}") for tick in ticks]
    )
    words = RESIDUE
    if signed:
        words += "; below 0: over-forgotten"
    axes.set(xlabel=theme.fitted(words, width, 44), ylabel="test accuracy [%]")
    axes.grid(axis="x", color=theme.BAND, linewidth=0.6)
    if signed:
        axes.axvline(0, color=theme.GRAY, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.margins(x=0.05, y=0.1)
    _legend(figure, points, 3 if width >= WIDTH else 2)
    _name(axes, points)
    return theme.freeze(figure)


def _legend(figure: Figure, points: pd.DataFrame, columns: int) -> None:
    """The kinds that occur, what else marks say, and the front."""
    looks = [(*style, style[0]) for kind, style in STYLES.items() if kind in set(points["kind"])]
    looks += (
        [(theme.GRAY, "v", "over-forgets", theme.GRAY)] if (points["share_high"] < 0).any() else []
    )
    looks += [] if np.isfinite(points["bound"]).all() else [(theme.GRAY, "o", "no bound", "none")]
    handles = [
        Line2D([], [], marker=marker, color=color, mfc=face, linestyle="none", label=words)
        for color, marker, words, face in looks
    ]
    figure.legend(
        handles=[*handles, Line2D([], [], label="front", **FRONT)],
        loc="outside lower center",
        ncols=columns,
    )


def _accuracy_bar(line: pd.Series) -> list[list[float]] | float:
    """How far a mark's vertical line reaches: ± over seeds; of one seed, its interval over test samples."""
    interval = accuracy_interval(line)
    if line["n"] > 1 or interval is None:
        return float(line["TA_sd"])
    return [[line["TA_mean"] - interval.low], [interval.high - line["TA_mean"]]]


def uncrossed(marks: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Which of the heights, at `NAMES`, the name of each mark gets so that no two lines to names cross.

    Of all ways to join marks with names, that with the shortest lines has no crossing: two lines that cross are longer
    than the two that join the same four ends without crossing. marks: (n, 2), in widths and heights of the plot.
    """
    from scipy.optimize import linear_sum_assignment

    lengths = np.hypot(NAMES - marks[:, :1], heights - marks[:, 1:])
    return np.asarray(linear_sum_assignment(lengths)[1])


def _name(axes: Axes, points: pd.DataFrame) -> None:
    """Write names and seconds beside the plot, near the height of their marks; a line leads to each, and none cross."""
    axes.autoscale_view()
    room = np.linspace(0, 1, len(points)) if len(points) > LINES else np.arange(len(points)) / LINES
    marks = axes.transLimits.transform(
        np.stack([points["share"].map(drawn), points["TA_mean"]], axis=1)
    )
    free = marks[:, 1] - room
    apart = (
        np.maximum.accumulate(free) + np.minimum.accumulate(free[::-1])[::-1]
    ) / 2  # as far down as up
    heights = np.clip(apart + room, room, 1 - room[::-1])
    heights = heights[uncrossed(marks, heights)]
    for (_, line), height in zip(points.iterrows(), heights, strict=True):
        axes.annotate(
            line["title"]
            + ("" if pd.isna(line["seconds"]) else f" {two_digits(line['seconds'])} s"),
            (drawn(line["share"]), line["TA_mean"]),
            (NAMES, height),
            textcoords="axes fraction",
            va="center",
            fontweight="bold" if line["front"] else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": theme.GRAY,
                "linewidth": 0.4,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )
