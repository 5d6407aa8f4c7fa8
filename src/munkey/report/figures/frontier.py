"""The figure of the frontier: each design's residual share, test accuracy, and seconds to forget."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from munkey.report.figures import theme
from munkey.report.tables.comparisons import compute_accuracy_interval
from munkey.report.tables.frontier import KINDS
from munkey.report.tables.markup import format_two_digits
from munkey.report.tables.summary import RESIDUE

WIDTH = 5.4  # inches; readable in a README without zooming, even on a phone
TICKS = (0, 1, 5, 20, 50, 100)  # percent
SIGNED_TICKS = (-100, -20, -5, -1, 0, 1, 5, 20, 100)  # percent, if the axis extends below 0
MAX_NAMES = 16  # how many names fit one above another next to the plot
NAMES_X = 1.02  # where the names start, in axes coordinates
WIDEST = 150.0  # percent; larger residual shares are drawn here
STYLES = {  # color and marker of each kind of design
    "exact": (theme.GREEN, "s"),
    "rows": (theme.BLUE, "o"),
    "weights": (theme.VERMILLION, "^"),
    "anew": (theme.BLACK, "*"),
}
FRONT: Any = {"color": theme.GRAY, "linestyle": theme.DASHES[1], "linewidth": 1}


def get_axis_position(share: float) -> float:
    """Return the axis coordinate of a share in percent.

    The scale is nearly linear between -1 and 1 and logarithmic beyond.
    """
    return float(np.arcsinh(np.clip(share, -WIDEST, WIDEST)))


@matplotlib.rc_context(theme.THEME)
def frontier_plot(points: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Draw one mark per design, labeled with its name and seconds, and the line of the front.

    Error bars are 95% intervals of shares, and ± one standard deviation of accuracies over seeds
    (with one seed, the 95% interval over test samples). A mark is hollow if its share has no bound,
    and points down if the design over-forgets. Designs that diverged or have an unknown share are
    left out. The front is mirrored at 0 if any share is negative.

    Raises ValueError if there are no rows.

    Parameters
    ----------
    points
        The result of `munkey.report.tables.frontier.collect_points` for one data set.
    width
        The width of the figure in inches.
    """
    audited = points.dropna(subset=["share", "TA_mean"])
    if len(points) and audited.empty:
        return theme.text_figure("Nothing is known of any design: models diverged.", width)
    points = theme.check_frame(audited.sort_values("TA_mean"), ["TA_mean"], "frontier")
    figure = theme.make_canvas(width, 3.6)
    axes = figure.subplots()
    for _, point in points.iterrows():
        color, marker = STYLES[point["kind"]]
        x = get_axis_position(point["share"])
        y = point["TA_mean"]
        bars: Any = {
            "xerr": [
                [x - get_axis_position(point["share_low"])],
                [get_axis_position(point["share_high"]) - x],
            ],
            "yerr": _compute_accuracy_bar(point),
        }
        axes.errorbar(x, y, **bars, fmt="none", ecolor=color, elinewidth=0.8, alpha=0.5, zorder=2)
        face = color if np.isfinite(point["bound"]) else "none"
        size = 8 if marker == "*" else 5.5
        if point["share_high"] < 0:
            marker = "v"
        axes.plot(x, y, marker, color=color, mfc=face, markersize=size, zorder=3)
    # The front is a staircase: each accuracy holds from its design's bound to the next bound.
    front = points[points["front"] & np.isfinite(points["bound"])]
    corners = [get_axis_position(bound) for bound in [*front["bound"], WIDEST]]
    steps = np.repeat(corners, 2)[1:-1]
    accuracies = np.repeat(front["TA_mean"], 2)
    axes.plot(steps, accuracies, zorder=1, **FRONT)
    if (points["share"] < 0).any():
        axes.plot(-steps, accuracies, zorder=1, **FRONT)
    lowest, _ = axes.get_xlim()
    reaches_below_zero = lowest < get_axis_position(-TICKS[1])
    if reaches_below_zero:
        x_label = f"{RESIDUE}; below 0: over-forgotten"
        ticks = [tick for tick in SIGNED_TICKS if get_axis_position(tick) >= lowest]
    else:
        x_label = RESIDUE
        ticks = list(TICKS)
    tick_labels = [f"{tick}".replace("-", "\N{MINUS SIGN}") for tick in ticks]
    axes.set_xticks([get_axis_position(tick) for tick in ticks], tick_labels)
    axes.set(xlabel=theme.wrap_words(x_label, width, 44), ylabel="test accuracy [%]")
    axes.grid(axis="x", color=theme.BAND, linewidth=0.6)
    if reaches_below_zero:
        axes.axvline(0, color=theme.GRAY, linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.margins(x=0.05, y=0.1)
    _add_legend(figure, points, 3 if width >= WIDTH else 2)
    _name_marks(axes, points)
    return theme.freeze(figure)


def _add_legend(figure: Figure, points: pd.DataFrame, columns: int) -> None:
    """Draw a legend of the front, and of the kinds and special marks that occur in the figure."""
    handles = []
    for kind, (color, marker) in STYLES.items():
        if kind in set(points["kind"]):
            handles.append(_make_handle(marker, KINDS[kind], color, face=color))
    if (points["share_high"] < 0).any():
        handles.append(_make_handle("v", "over-forgets", theme.GRAY, face=theme.GRAY))
    if not np.isfinite(points["bound"]).all():
        handles.append(_make_handle("o", "no bound", theme.GRAY, face="none"))
    handles.append(Line2D([], [], label="front", **FRONT))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def _make_handle(marker: str, label: str, color: str, *, face: str) -> Line2D:
    return Line2D([], [], marker=marker, color=color, mfc=face, linestyle="none", label=label)


def _compute_accuracy_bar(point: pd.Series) -> list[list[float]] | float:
    """Return `yerr`: ± one standard deviation over seeds or, for one, the interval over test samples."""
    interval = compute_accuracy_interval(point)
    if point["n"] > 1 or interval is None:
        return float(point["TA_sd"])
    return [[point["TA_mean"] - interval.low], [interval.high - point["TA_mean"]]]


def assign_heights(marks: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Assign names to marks such that no two connecting lines cross.

    This is the assignment with the smallest total length. It has no crossings, because two lines
    that cross are longer than the two lines that connect the same ends without crossing.

    Parameters
    ----------
    marks
        The positions (n, 2) of the marks, in axes coordinates.
    heights
        The heights (n,) of the names, which all start at x = NAMES_X.

    Returns
    -------
    indices
        The index into `heights` for each mark.
    """
    from scipy.optimize import linear_sum_assignment

    lengths = np.hypot(NAMES_X - marks[:, :1], heights - marks[:, 1:])
    return np.asarray(linear_sum_assignment(lengths)[1])


def _name_marks(axes: Axes, points: pd.DataFrame) -> None:
    """Write names and seconds next to the plot, with lines to their marks that do not cross."""
    axes.autoscale_view()  # needed for transLimits to use the final axis limits
    marks = axes.transLimits.transform(
        np.stack([points["share"].map(get_axis_position), points["TA_mean"]], axis=1)
    )
    heights = theme.spread_heights(marks[:, 1], 1 / MAX_NAMES)
    heights = heights[assign_heights(marks, heights)]
    for (_, point), height in zip(points.iterrows(), heights, strict=True):
        label = point["title"]
        if pd.notna(point["seconds"]):
            label += f" {format_two_digits(point['seconds'])} s"
        axes.annotate(
            label,
            (get_axis_position(point["share"]), point["TA_mean"]),
            (NAMES_X, height),
            textcoords="axes fraction",
            va="center",
            fontweight="bold" if point["front"] else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": theme.GRAY,
                "linewidth": 0.4,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )
