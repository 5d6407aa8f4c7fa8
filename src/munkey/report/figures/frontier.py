"""The frontier: how much of deleted samples each design still remembers, against its accuracy and its seconds."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from munkey.report.figures import theme
from munkey.report.tables.audits import RESIDUE
from munkey.report.tables.comparisons import compute_accuracy_interval
from munkey.report.tables.frontier import KINDS
from munkey.report.tables.markup import format_two_digits

WIDTH = 5.4  # inches: read without zooming in a README, on a phone too
TICKS = (0, 1, 5, 20, 50, 100)  # percent
SIGNED_TICKS = (-100, -20, -5, -1, 0, 1, 5, 20, 100)  # where something reaches below 0
LINES = 16  # of names have room beside the plot
NAMES = 1.02  # where they begin, in widths of the plot
WIDEST = 150.0  # percent: larger residual shares are drawn here
STYLES = {  # of kinds: color, marker
    "exact": (theme.GREEN, "s"),
    "rows": (theme.BLUE, "o"),
    "weights": (theme.VERMILLION, "^"),
    "anew": (theme.BLACK, "*"),
}
FRONT: Any = {"color": theme.GRAY, "linestyle": theme.DASHES[1], "linewidth": 1}


def axis_position(share: float) -> float:
    """Return where a share in percent lies on the axis.

    The scale is nearly linear up to 1 on either side of 0, and logarithmic beyond.
    """
    return float(np.arcsinh(np.clip(share, -WIDEST, WIDEST)))


@matplotlib.rc_context(theme.THEME)
def frontier_plot(points: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Draw a mark for each design, with its name and its seconds, and the line of the front.

    Bars are 95 % intervals, and ± over seeds for accuracies (with one seed, the 95 % interval over
    test samples). A mark is hollow if no bound holds, and upside down, left of 0, if the design
    over-forgets. Designs whose share is not known, or that diverged, are left out. The front is
    drawn on both sides of 0 if any mark is on the left.

    Raises ValueError for no rows.

    Parameters
    ----------
    points
        The result of `munkey.report.tables.frontier.frontier` for one data set.
    width
        Width of the figure in inches.
    """
    audited = points.dropna(subset=["share", "TA_mean"])
    if len(points) and audited.empty:
        return theme.text_figure("Nothing is known of any design: models diverged.", width)
    points = theme.check_frame(audited.sort_values("TA_mean"), ["TA_mean"], "frontier")
    figure = theme.canvas(width, 3.6)
    axes = figure.subplots()
    for _, row in points.iterrows():
        color, marker = STYLES[row["kind"]]
        at = (axis_position(row["share"]), row["TA_mean"])
        bars: Any = {
            "xerr": [
                [at[0] - axis_position(row["share_low"])],
                [axis_position(row["share_high"]) - at[0]],
            ],
            "yerr": _accuracy_bar(row),
        }
        axes.errorbar(*at, **bars, fmt="none", ecolor=color, elinewidth=0.8, alpha=0.5, zorder=2)
        face = color
        if not np.isfinite(row["bound"]):
            face = "none"
        size = 5.5
        if marker == "*":
            size = 8
        if row["share_high"] < 0:
            marker = "v"
        axes.plot(*at, marker, color=color, mfc=face, markersize=size, zorder=3)
    # A staircase: each accuracy holds from its design's bound to the bound of the next one.
    front = points[points["front"] & np.isfinite(points["bound"])]
    corners = [axis_position(bound) for bound in [*front["bound"], WIDEST]]
    steps = np.repeat(corners, 2)[1:-1]
    accuracies = np.repeat(front["TA_mean"], 2)
    axes.plot(steps, accuracies, zorder=1, **FRONT)
    if (points["share"] < 0).any():
        axes.plot(-steps, accuracies, zorder=1, **FRONT)
    lowest, _ = axes.get_xlim()
    reaches_below_zero = lowest < axis_position(-TICKS[1])
    words = RESIDUE
    ticks = list(TICKS)
    if reaches_below_zero:
        words += "; below 0: over-forgotten"
        ticks = [tick for tick in SIGNED_TICKS if axis_position(tick) >= lowest]
    labels = [f"{tick}".replace("-", "\N{MINUS SIGN}") for tick in ticks]
    axes.set_xticks([*map(axis_position, ticks)], labels)
    axes.set(xlabel=theme.wrap_words(words, width, 44), ylabel="test accuracy [%]")
    axes.grid(axis="x", color=theme.BAND, linewidth=0.6)
    if reaches_below_zero:
        axes.axvline(0, color=theme.GRAY, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.margins(x=0.05, y=0.1)
    _legend(figure, points, 3 if width >= WIDTH else 2)
    _name_marks(axes, points)
    return theme.freeze(figure)


def _legend(figure: Figure, points: pd.DataFrame, columns: int) -> None:
    """Draw a legend of the kinds that occur, the other marks that occur, and the front."""
    handles = []
    for kind, (color, marker) in STYLES.items():
        if kind in set(points["kind"]):
            handles.append(_mark(color, marker, KINDS[kind], color))
    if (points["share_high"] < 0).any():
        handles.append(_mark(theme.GRAY, "v", "over-forgets", theme.GRAY))
    if not np.isfinite(points["bound"]).all():
        handles.append(_mark(theme.GRAY, "o", "no bound", "none"))
    handles.append(Line2D([], [], label="front", **FRONT))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def _mark(color: str, marker: str, words: str, face: str) -> Line2D:
    return Line2D([], [], marker=marker, color=color, mfc=face, linestyle="none", label=words)


def _accuracy_bar(row: pd.Series) -> list[list[float]] | float:
    """Return how far a mark's vertical line reaches down and up, as matplotlib wants it.

    That is ± one deviation over seeds; with one seed, the interval over test samples.
    """
    interval = compute_accuracy_interval(row)
    if row["n"] > 1 or interval is None:
        return float(row["TA_sd"])
    return [[row["TA_mean"] - interval.low], [interval.high - row["TA_mean"]]]


def assign_heights(marks: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return which of the heights the name of each mark gets so that no two lines to names cross.

    The assignment with the shortest lines in total has no crossing: two lines that cross are longer
    than the two that join the same four ends without crossing.

    Parameters
    ----------
    marks
        Positions (n, 2) of the marks, in widths and heights of the plot.
    heights
        Heights (n,) of the names, which all begin at `NAMES`.
    """
    from scipy.optimize import linear_sum_assignment

    lengths = np.hypot(NAMES - marks[:, :1], heights - marks[:, 1:])
    return np.asarray(linear_sum_assignment(lengths)[1])


def _name_marks(axes: Axes, points: pd.DataFrame) -> None:
    """Write names and seconds beside the plot, near the height of their marks; a line leads to each, and none cross."""
    axes.autoscale_view()  # transLimits are of the final limits only after this
    marks = axes.transLimits.transform(
        np.stack([points["share"].map(axis_position), points["TA_mean"]], axis=1)
    )
    heights = theme.spread_heights(marks[:, 1], 1 / LINES)
    heights = heights[assign_heights(marks, heights)]
    for (_, row), height in zip(points.iterrows(), heights, strict=True):
        words = row["title"]
        if pd.notna(row["seconds"]):
            words += f" {format_two_digits(row['seconds'])} s"
        axes.annotate(
            words,
            (axis_position(row["share"]), row["TA_mean"]),
            (NAMES, height),
            textcoords="axes fraction",
            va="center",
            fontweight="bold" if row["front"] else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": theme.GRAY,
                "linewidth": 0.4,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )
