"""The choice of p_image and p_token (fig. radar, model selection): a panel for each metric, a line for each pair."""

from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from munkey.report.figures.theme import BAND, BLACK, BLUE, DOUBLE, GRAY, THEME, VERMILLION, canvas, checked, freeze

METRICS = {  # of a panel each; those in percent are drawn to one scale
    "gap": "validation gap\n[points]",
    "P_s": "$P_s$\n(ξ dotted)",
    "TA": "TA [%]",
    "RA": "RA [%]",
    "FA": "FA [%]",
    "MIA": "MIA [%]",
}
PERCENT = ("TA", "RA", "FA", "MIA")
Look = dict[str, Any]  # keyword arguments of a point, as matplotlib wants them
CHOSEN: Look = {"color": VERMILLION, "marker": "*", "markersize": 9}
NEVER_DROPPED: Look = {"color": GRAY, "marker": "X", "markersize": 5}
OTHER: Look = {"color": BLUE, "marker": "o", "markersize": 5}


@matplotlib.rc_context(THEME)
def selection_plot(frame: pd.DataFrame, threshold: float) -> Figure:
    """A line per pair (p_image, p_token) of one data set. The chosen pair, if any, is a bold star, (0, 0) a gray cross.

    Columns: dataset, p_image, p_token, TA, RA, FA, MIA (percent), P_s, gap (validation utility gap, points), chosen.
    The four panels in percent span equally many points. threshold: xi, dotted. Raises ValueError for an empty frame,
    NaN, several data sets, or several chosen pairs.
    """
    numbers = ["p_image", "p_token", *METRICS]
    frame = checked(frame, ["dataset", *numbers, "chosen"], numbers, "pairs")
    if frame["dataset"].nunique() != 1 or frame["chosen"].sum() > 1:
        raise ValueError("pairs: one data set and at most one chosen pair (p_image, p_token) are needed")
    frame = frame.sort_values(["p_image", "p_token"], ignore_index=True)
    figure = canvas(DOUBLE, 1.1 + 0.2 * len(frame))
    panels = figure.subplots(1, len(METRICS), sharey=True)
    span = 1.3 * max(float(np.ptp(frame[name])) for name in PERCENT) or 1.0
    for axes, (name, title) in zip(panels, METRICS.items(), strict=True):
        _panel(axes, frame[name], list(_looks(frame)))
        axes.set_xlabel(title)
        if name in PERCENT:
            axes.set_xlim(*((frame[name].min() + frame[name].max() + sign * span) / 2 for sign in (-1, 1)))
    _threshold(panels[1], threshold, frame["P_s"].max())
    _names(panels[0], frame)
    figure.suptitle(str(frame["dataset"].iloc[0]) + ("" if frame["chosen"].any() else ": no pair passes"), fontsize=8)
    return freeze(figure)


def _looks(frame: pd.DataFrame) -> Iterator[Look]:
    """How the point of each pair looks."""
    for _, pair in frame.iterrows():
        never = pair["p_image"] == 0 and pair["p_token"] == 0
        yield CHOSEN if pair["chosen"] else NEVER_DROPPED if never else OTHER


def _panel(axes: Axes, values: "pd.Series[float]", looks: list[Look]) -> None:
    for place, (value, look) in enumerate(zip(values, looks, strict=True)):
        axes.plot(value, place, linestyle="none", **look)
    axes.margins(x=0.2)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.grid(color=BAND, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _threshold(axes: Axes, threshold: float, largest: float) -> None:
    """Pairs to the right of the line are not chosen. P_s is hardly ever above 1, so a threshold beyond is not shown."""
    axes.set_xlim(0, 1.15 * max(largest, min(threshold, 1.0)))
    axes.axvline(threshold, color=BLACK, linestyle=":", linewidth=1)


def _names(axes: Axes, frame: pd.DataFrame) -> None:
    """The pairs, the chosen one in bold, below what their numbers are."""
    axes.set_yticks(range(len(frame)), [f"{pair['p_image']:g}, {pair['p_token']:g}" for _, pair in frame.iterrows()])
    axes.set_ylim(len(frame) - 0.5, -0.5)
    axes.set_ylabel("$p_{image}$, $p_{token}$")
    for label, chosen in zip(axes.get_yticklabels(), frame["chosen"], strict=True):
        label.set_fontweight("bold" if chosen else "normal")
