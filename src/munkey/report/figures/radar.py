"""Metrics under each pair of dropout probabilities (fig. radar, model selection)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from munkey.report.figures.theme import BLACK, DASHES, DOUBLE, GRAY, MARKERS, PALETTE, THEME, canvas, checked, freeze

SPOKES = {"TA": "TA [%]", "RA": "RA [%]", "FA": "FA [%]", "MIA": "MIA [%]", "balance": r"$100\,(1-P_s)$"}
ANGLES = 2 * np.pi * np.arange(len(SPOKES)) / len(SPOKES)
Look = dict[str, Any]  # keyword arguments of a line, as matplotlib wants them
CHOSEN: Look = {"color": BLACK, "linestyle": "--", "linewidth": 1.8, "zorder": 4.0}
NEVER_DROPPED: Look = {"color": GRAY, "linestyle": "-", "linewidth": 1.8, "zorder": 3.0}


class Ranges(NamedTuple):
    """The ends of each spoke, arrays (5,)."""

    low: np.ndarray
    high: np.ndarray


@matplotlib.rc_context(THEME)
def draw(frame: pd.DataFrame) -> Figure:
    """A line per pair (p_image, p_token) of one data set. The chosen pair, if any, is dashed black, (0, 0) gray.

    Columns: dataset, p_image, p_token, TA, RA, FA, MIA (percent), P_s, gap (validation utility gap, points), chosen.
    Spokes: TA, RA, FA, MIA and 100 (1 - P_s), each from the lowest to the highest value of the grid plus 10 %. Raises
    ValueError for an empty frame, NaN, several data sets, or several chosen pairs.
    """
    numbers = ["p_image", "p_token", "TA", "RA", "FA", "MIA", "P_s", "gap"]
    frame = checked(frame, ["dataset", *numbers, "chosen"], numbers, "radar")
    if frame["dataset"].nunique() != 1 or frame["chosen"].sum() > 1:
        raise ValueError("radar: one data set and at most one chosen pair (p_image, p_token) are needed")
    frame = frame.assign(balance=100 * (1 - frame["P_s"])).sort_values(["chosen", "p_image", "p_token"])
    ranges = _ranges(frame)
    figure = canvas(DOUBLE, max(3.4, 0.5 + 0.17 * len(frame)))
    axes = figure.add_subplot(projection="polar")
    for (_, pair), look in zip(frame.iterrows(), _looks(frame), strict=True):
        radii = (pair[list(SPOKES)].to_numpy(dtype=float) - ranges.low) / (ranges.high - ranges.low)
        axes.plot([*ANGLES, ANGLES[0]], [*radii, radii[0]], label=_name(pair), **look)
    _spokes(axes, ranges)
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, title="$(p_i, p_t)$, utility gap [points], sensitivity", loc="outside right center")
    axes.set_title(str(frame["dataset"].iloc[0]) + ("" if frame["chosen"].any() else ": no pair passes"), pad=14)
    return freeze(figure)


def _ranges(frame: pd.DataFrame) -> Ranges:
    """From the lowest to the highest value of the grid, plus 10 % on either side."""
    values = frame[list(SPOKES)].to_numpy(dtype=float)
    low, high = values.min(axis=0), values.max(axis=0)
    pad = np.maximum(0.1 * (high - low), 0.05)  # the floor is for a spoke on which all values are equal
    return Ranges(low - pad, high + pad)


def _looks(frame: pd.DataFrame) -> Iterator[Look]:
    """How the line of each pair looks."""
    number = 0  # of pairs so far that are neither
    for _, pair in frame.iterrows():
        if pair["chosen"]:
            yield CHOSEN
        elif pair["p_image"] == 0 and pair["p_token"] == 0:
            yield NEVER_DROPPED
        else:
            dashes, marker = DASHES[(number // 6 + number) % 4], MARKERS[number % 7]
            yield {"color": PALETTE[number % 6], "linestyle": dashes, "linewidth": 1.0, "marker": marker}
            number += 1


def _name(pair: pd.Series) -> str:
    name = f"({pair['p_image']:g}, {pair['p_token']:g})  gap {pair['gap']:.2f}  $P_s$ {pair['P_s']:.3f}"
    return name + ("  chosen" if pair["chosen"] else "")


def _spokes(axes: Axes, ranges: Ranges) -> None:
    """The first spoke points up; the range of each stands at its end."""
    ends = [f"{title}\n{a:.1f} to {b:.1f}" for title, a, b in zip(SPOKES.values(), *ranges, strict=True)]
    axes.set_theta_zero_location("N")  # type: ignore[attr-defined]  # polar axes have it
    axes.set_xticks(ANGLES, ends)
    axes.tick_params(axis="x", pad=18)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], [])
    axes.set_ylim(0, 1)
    axes.grid(color="#cccccc", linewidth=0.5)
