"""The figure of the frontier: residual share, test accuracy and seconds of each design."""

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

WIDTH = 5.4  # inches: legible without zooming in a README, on a phone too
TICKS = (0, 1, 5, 20, 50, 100)  # percent
SIGNED_TICKS = (-100, -20, -5, -1, 0, 1, 5, 20, 100)  # if the axis extends below 0
MAX_NAMES = 16  # that fit next to the plot, one per row
NAME_POSITION = 1.02  # where names begin, in widths of the plot
MAX_SHARE = 150.0  # percent; larger residual shares are drawn here
STYLES = {  # color and marker of each kind of design
    "exact": (theme.GREEN, "s"),
    "rows": (theme.BLUE, "o"),
    "weights": (theme.VERMILLION, "^"),
    "anew": (theme.BLACK, "*"),
}
FRONT: Any = {"color": theme.GRAY, "linestyle": theme.DASHES[1], "linewidth": 1}


def axis_position(share: float) -> float:
    """Return the position of a share (in percent) on the axis.

    The scale is nearly linear up to 1 on either side of 0, and logarithmic beyond.
    """
    return float(np.arcsinh(np.clip(share, -MAX_SHARE, MAX_SHARE)))


@matplotlib.rc_context(theme.THEME)
def frontier_plot(points: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Draw a mark for each design, with its name and its seconds, and the front as a line.

    Bars are 95 % intervals of shares, and ± over seeds of accuracies (with one seed, the 95 %
    interval over test samples). A mark is hollow if the share has no bound, and an upside-down
    triangle left of 0 if the design over-forgets. Designs with an unknown share, or that diverged,
    are left out. The front is drawn on both sides of 0 if any mark is on the left.

    Raises ValueError if there are no rows.

    Parameters
    ----------
    points
        The result of `munkey.report.tables.frontier.make_points`.
    width
        Width of the figure in inches.
    """
    audited = points.dropna(subset=["share", "TA_mean"])
    if len(points) and audited.empty:
        return theme.text_figure("No design has a residual share: models diverged.", width)
    points = theme.check_frame(audited.sort_values("TA_mean"), ["TA_mean"], "frontier")
    figure = theme.canvas(width, 3.6)
    axes = figure.subplots()
    for _, row in points.iterrows():
        _draw_mark(axes, row)
    # A staircase: each accuracy holds from its design's bound to the bound of the next one.
    front = points[points["front"] & np.isfinite(points["bound"])]
    corners = [axis_position(bound) for bound in [*front["bound"], MAX_SHARE]]
    steps = np.repeat(corners, 2)[1:-1]
    accuracies = np.repeat(front["TA_mean"], 2)
    axes.plot(steps, accuracies, zorder=1, **FRONT)
    if (points["share"] < 0).any():
        axes.plot(-steps, accuracies, zorder=1, **FRONT)
    lowest, _ = axes.get_xlim()
    reaches_below_zero = lowest < axis_position(-TICKS[1])
    if reaches_below_zero:
        label = f"{RESIDUE}; below 0: over-forgotten"
        ticks = [tick for tick in SIGNED_TICKS if axis_position(tick) >= lowest]
    else:
        label = RESIDUE
        ticks = list(TICKS)
    tick_labels = [f"{tick}".replace("-", "\N{MINUS SIGN}") for tick in ticks]
    axes.set_xticks([*map(axis_position, ticks)], tick_labels)
    axes.set(xlabel=theme.wrap_if_narrow(label, width, 44), ylabel="test accuracy [%]")
    axes.grid(axis="x", color=theme.BAND, linewidth=0.6)
    if reaches_below_zero:
        axes.axvline(0, color=theme.GRAY, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.margins(x=0.05, y=0.1)
    _legend(figure, points, 3 if width >= WIDTH else 2)
    _name_marks(axes, points)
    return theme.freeze(figure)


def _draw_mark(axes: Axes, row: pd.Series) -> None:
    """Draw the mark and the error bars of one design."""
    color, marker = STYLES[row["kind"]]
    x = axis_position(row["share"])
    y = row["TA_mean"]
    share_bar = [[x - axis_position(row["share_low"])], [axis_position(row["share_high"]) - x]]
    axes.errorbar(
        x,
        y,
        xerr=share_bar,
        yerr=_accuracy_bar(row),
        fmt="none",
        ecolor=color,
        elinewidth=0.8,
        alpha=0.5,
        zorder=2,
    )
    face = color if np.isfinite(row["bound"]) else "none"
    size = 8 if marker == "*" else 5.5
    if row["share_high"] < 0:
        marker = "v"
    axes.plot(x, y, marker, color=color, mfc=face, markersize=size, zorder=3)


def _legend(figure: Figure, points: pd.DataFrame, columns: int) -> None:
    """Draw a legend of all marks that occur, and of the front."""
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


def _mark(color: str, marker: str, label: str, face: str) -> Line2D:
    return Line2D([], [], marker=marker, color=color, mfc=face, linestyle="none", label=label)


def _accuracy_bar(row: pd.Series) -> list[list[float]] | float:
    """Return the error bar of a test accuracy, in the form of matplotlib's `yerr`.

    It is ± one standard deviation over seeds; with one seed, the interval over test samples.
    """
    interval = compute_accuracy_interval(row)
    if row["n"] > 1 or interval is None:
        return float(row["TA_sd"])
    return [[row["TA_mean"] - interval.low], [interval.high - row["TA_mean"]]]


def assign_heights(marks: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Assign a height to the name of each mark, so that no two lines from marks to names cross.

    The assignment with the smallest total length has no crossings, because two crossing lines are
    longer than the two lines that join the same four ends without crossing.

    Parameters
    ----------
    marks
        Positions (n, 2) of the marks, in widths and heights of the plot.
    heights
        Heights (n,) of the names, which all begin at NAME_POSITION.
    """
    from scipy.optimize import linear_sum_assignment

    lengths = np.hypot(NAME_POSITION - marks[:, :1], heights - marks[:, 1:])
    return np.asarray(linear_sum_assignment(lengths)[1])


def _name_marks(axes: Axes, points: pd.DataFrame) -> None:
    """Write names and seconds next to the plot, each connected to its mark by a line."""
    axes.autoscale_view()  # so that transLimits uses the final limits
    marks = axes.transLimits.transform(
        np.stack([points["share"].map(axis_position), points["TA_mean"]], axis=1)
    )
    heights = theme.spread_heights(marks[:, 1], 1 / MAX_NAMES)
    heights = heights[assign_heights(marks, heights)]
    for (_, row), height in zip(points.iterrows(), heights, strict=True):
        label = row["title"]
        if pd.notna(row["seconds"]):
            label += f" {format_two_digits(row['seconds'])} s"
        axes.annotate(
            label,
            (axis_position(row["share"]), row["TA_mean"]),
            (NAME_POSITION, height),
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
