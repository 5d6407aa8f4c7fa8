"""The figure of the frontier: each design's test accuracy, and what it still remembers."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from munkey.report.figures import theme
from munkey.report.tables.comparisons import compute_accuracy_interval
from munkey.report.tables.frontier import ATTACK, CHANCE, KINDS, LEFT
from munkey.report.tables.markup import format_two_digits

WIDTH = 5.4  # inches; readable in a README without zooming, even on a phone
REACH = 1.25  # bars end here, in the largest contrast of the figure
NARROWEST = 0.05  # the axis of what is left is at least as wide, in the largest contrast
LEAST_AUROC = 55.0  # the axis of the attack reaches at least this far, in percent
STYLES = {  # color and marker of each kind of design
    "exact": (theme.GREEN, "s"),
    "rows": (theme.BLUE, "o"),
    "weights": (theme.VERMILLION, "^"),
    "anew": (theme.BLACK, "*"),
}
ROW = theme.LINE_HEIGHT


@matplotlib.rc_context(theme.THEME)
def frontier_plot(points: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Draw one row per design, the most accurate first: its accuracy, and two measures of what is left.

    These are the contrast after deletion, in normal scores, and the AUROC of U-LiRA. Error bars are
    their 95% intervals, and ± one standard deviation of accuracies over seeds (with one seed, the 95%
    interval over test samples). A mark is hollow if the residual share has no bound. Designs that
    diverged or whose residual share is unknown are left out.

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
    figure = theme.make_canvas(width, ROW * len(points) + 1.1)
    accuracy_axes, left_axes, attack_axes = figure.subplots(1, 3, sharey=True)
    scale = float(np.nanmax(np.abs(points[["before", "left"]].to_numpy(dtype=float))))
    limit = REACH * (scale or 1.0)
    for row, (_, point) in enumerate(points.iterrows()):
        color, marker = STYLES[point["kind"]]
        face = color if np.isfinite(point["bound"]) else "none"
        mark: Any = {
            "color": color,
            "marker": marker,
            "mfc": face,
            "markersize": 8 if marker == "*" else 5.5,
            "zorder": 3,
        }
        bar: Any = {"fmt": "none", "ecolor": color, "elinewidth": 1, "alpha": 0.6, "zorder": 2}
        accuracy_axes.errorbar(point["TA_mean"], row, xerr=_compute_accuracy_bar(point), **bar)
        accuracy_axes.plot(point["TA_mean"], row, **mark)
        low, high = np.clip([point["left_low"], point["left_high"]], -limit, limit)
        left = float(np.clip(point["left"], -limit, limit))
        left_axes.errorbar(left, row, xerr=[[left - low], [high - left]], **bar)
        left_axes.plot(left, row, **mark)
        if pd.notna(point["auroc"]):
            errors = [[point["auroc"] - point["auroc_low"]], [point["auroc_high"] - point["auroc"]]]
            attack_axes.errorbar(point["auroc"], row, xerr=errors, **bar)
            attack_axes.plot(point["auroc"], row, **mark)
    _name_rows(accuracy_axes, points)
    accuracy_axes.set_xlabel("test accuracy [%]")
    left_axes.set_xlabel(theme.wrap_words(LEFT, width, 18))
    attack_axes.set_xlabel(theme.wrap_words(f"found by an attack [{ATTACK}, %]", width, 18))
    # These lines are invisible and only widen the axes.
    left_axes.plot([0, NARROWEST * scale], [0, 0], linestyle="none")
    attack_axes.plot([CHANCE, LEAST_AUROC], [0, 0], linestyle="none")
    left_axes.axvline(0, color=theme.GRAY, linewidth=0.6, zorder=0)
    attack_axes.axvline(CHANCE, color=theme.GRAY, linewidth=0.6, zorder=0)
    for axes in (left_axes, attack_axes):
        axes.tick_params(axis="y", left=False, labelleft=False)
    for axes in (accuracy_axes, left_axes, attack_axes):
        axes.grid(axis="both", color=theme.BAND, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.margins(x=0.06)
    accuracy_axes.set_ylim(-0.6, len(points) - 0.4)
    _add_legend(figure, points)
    return theme.freeze(figure)


def _name_rows(axes: Axes, points: pd.DataFrame) -> None:
    """Write names and seconds of designs beside their rows; those on the front are bold."""
    names = []
    for _, point in points.iterrows():
        name = point["title"]
        if pd.notna(point["seconds"]):
            name += f"  {format_two_digits(point['seconds'])} s"
        names.append(name)
    axes.set_yticks(range(len(points)), names)
    axes.tick_params(axis="y", length=0)
    for label, is_front in zip(axes.get_yticklabels(), points["front"], strict=True):
        if is_front:
            label.set_fontweight("bold")


def _add_legend(figure: Figure, points: pd.DataFrame) -> None:
    """Draw a legend of the kinds and special marks that occur in the figure."""
    handles = []
    for kind, (color, marker) in STYLES.items():
        if kind in set(points["kind"]):
            handles.append(_make_handle(marker, KINDS[kind], color, face=color))
    if not np.isfinite(points["bound"]).all():
        label = "residual share has no bound (†)"
        handles.append(_make_handle("o", label, theme.GRAY, face="none"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _make_handle(marker: str, label: str, color: str, *, face: str) -> Line2D:
    return Line2D([], [], marker=marker, color=color, mfc=face, linestyle="none", label=label)


def _compute_accuracy_bar(point: pd.Series) -> list[list[float]] | float:
    """Return `xerr`: ± one standard deviation over seeds or, for one, the interval over test samples."""
    interval = compute_accuracy_interval(point)
    if point["n"] > 1 or interval is None:
        return float(point["TA_sd"])
    return [[point["TA_mean"] - interval.low], [interval.high - point["TA_mean"]]]
