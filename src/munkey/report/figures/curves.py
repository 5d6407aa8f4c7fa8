"""Curves: accuracy and gap over the number of neighbors K, and pathway sensitivity over training."""

import math
from typing import NamedTuple

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from munkey.report.figures.theme import (
    BLACK,
    BLUE,
    DASHES,
    DOUBLE,
    ORANGE,
    SKY,
    THEME,
    canvas,
    checked,
    freeze,
    mean_curve,
    over_seeds,
    point_style,
)


class Curve(NamedTuple):
    """How one curve over training looks and is called. line: its dashes, by their number in the theme.

    top: the largest value that there can be.
    """

    title: str
    color: str
    line: int
    top: float


SENSITIVITY = Curve("$P_s$", BLUE, 0, math.inf)
PATHWAYS = {
    "A_image": Curve("image alone", ORANGE, 0, 100),
    "A_token": Curve("token alone", SKY, 1, 100),
    "A_both": Curve("both", BLACK, 2, 100),
}


@matplotlib.rc_context(THEME)
def neighbors_plot(frame: pd.DataFrame) -> Figure:
    """Test accuracy and Avg Gap over the number of neighbors K, a line per data set (fig. ablation-knn).

    Columns: dataset, k, TA_mean, TA_sd, gap_mean, gap_sd (percent, points), n. A standard deviation may be NaN (one
    seed): then there is no bar. No bar goes below 0, the smallest possible value. Raises ValueError for an empty frame,
    missing columns, NaN means or K < 1.
    """
    numbers = ["k", "TA_mean", "gap_mean", "n"]
    frame = checked(frame, ["dataset", *numbers, "TA_sd", "gap_sd"], numbers, "k_curve")
    if (frame["k"] < 1).any():
        raise ValueError("k_curve: K counts neighbors and so is at least 1")
    figure = canvas(DOUBLE, 2.6)
    left, right = figure.subplots(1, 2)
    _over_k(left, frame, "TA", "test accuracy [%]")
    _over_k(right, frame, "gap", "Avg Gap [percentage points]")
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 4))
    figure.supxlabel(over_seeds(frame["n"]), fontsize=8)
    return freeze(figure)


def _over_k(axes: Axes, frame: pd.DataFrame, metric: str, title: str) -> None:
    for number, (dataset, part) in enumerate(frame.sort_values("k").groupby("dataset", sort=True)):
        color, marker = point_style(number)
        mean, sd = part[f"{metric}_mean"], part[f"{metric}_sd"].fillna(0)
        axes.errorbar(part["k"], mean, [sd.clip(upper=mean), sd], color=color, capsize=2, marker=marker,
                      linestyle=DASHES[number % len(DASHES)], label=str(dataset))  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(frame["k"].unique())))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="K, neighbors per query", ylabel=title)


@matplotlib.rc_context(THEME)
def sensitivity_plot(frame: pd.DataFrame, threshold: float = 0.3) -> Figure:
    """Pathway sensitivity P_s and the accuracies of the pathways over training, a row per data set (sec. 3).

    Columns: dataset, seed, epoch, P_s, A_image, A_token, A_both (percent). Lines are means over seeds, bands one
    standard deviation. threshold: xi, dotted. Raises ValueError for an empty frame, missing columns or NaN.
    """
    numbers = ["epoch", "P_s", "A_image", "A_token", "A_both"]
    frame = checked(frame, ["dataset", "seed", *numbers], numbers, "sensitivity")
    datasets = sorted(frame["dataset"].unique())
    figure = canvas(DOUBLE, 2.5 * len(datasets))
    grid = figure.subplots(len(datasets), 2, squeeze=False)
    for (left, right), dataset in zip(grid, datasets, strict=True):
        part = frame[frame["dataset"] == dataset]
        _sensitivity_over_epochs(left, part, threshold)
        _accuracies_over_epochs(right, part)
        left.set_title(str(dataset), loc="left", fontweight="bold")
    figure.supxlabel(over_seeds(frame.groupby("dataset")["seed"].nunique()), fontsize=8)
    return freeze(figure)


def _sensitivity_over_epochs(axes: Axes, part: pd.DataFrame, threshold: float) -> None:
    _over_epochs(axes, part, "P_s", SENSITIVITY)
    axes.axhline(threshold, color=BLACK, linestyle=":", linewidth=1, label=f"ξ = {threshold}, not selected above")
    axes.set(xlabel="epoch", ylabel="pathway sensitivity $P_s$ (no unit)")
    axes.set_ylim(0, max(1.15 * axes.get_ylim()[1], 1.3 * threshold))
    axes.legend(loc="best")


def _accuracies_over_epochs(axes: Axes, part: pd.DataFrame) -> None:
    for column, curve in PATHWAYS.items():
        _over_epochs(axes, part, column, curve)
    axes.set(xlabel="epoch", ylabel="training accuracy [%]", ylim=(0, 104))
    axes.legend(loc="best")


def _over_epochs(axes: Axes, part: pd.DataFrame, column: str, curve: Curve) -> None:
    look = {"linestyle": DASHES[curve.line], "label": curve.title}
    mean_curve(axes, part.groupby("epoch")[column], curve.color, curve.top, alpha=0.2, **look)
