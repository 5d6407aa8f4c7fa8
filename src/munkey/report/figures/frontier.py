"""The frontier: what each design leaves of what was deleted, against its accuracy, beside its seconds."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from munkey.report.figures import theme
from munkey.report.tables.markup import two_digits

WIDTH = 5.4  # inches: read without zooming in a README, on a phone too
TICKS = (0, 1, 5, 20, 50, 100)  # percent
WIDEST = 150.0  # percent: what is left beyond it is drawn there
STYLES = {  # of kinds: color, marker, words
    "exact": (theme.GREEN, "s", "drops rows, exactly"),
    "rows": (theme.BLUE, "o", "drops rows, weights stay"),
    "weights": (theme.VERMILLION, "^", "changes weights"),
    "anew": (theme.BLACK, "*", "trains anew (reference)"),
}
FURTHER = {"v": ("over-forgets", theme.GRAY), "o": ("no bound", "none")}  # markers: words, their face
FRONT: Any = {"color": theme.GRAY, "linestyle": theme.DASHES[1], "linewidth": 1}


def drawn(share: float) -> float:
    """Where a share in percent, of either sign, lies on the axis: nearly linear up to 1, logarithmic beyond."""
    return float(np.arcsinh(min(abs(share), WIDEST)))


@matplotlib.rc_context(theme.THEME)
def frontier_plot(points: pd.DataFrame, width: float = WIDTH) -> Figure:
    """points: of `munkey.report.tables.frontier`, one data set. A design is a mark with its 95 % interval and ± over
    seeds, its name and its seconds; hollow where no bound holds, upside down where it over-forgets. One of which no
    share is known is left out. The line is the front. width: inches. Raises ValueError for no rows.
    """
    points = theme.checked(points.dropna(subset="share"), ["TA_mean"], "frontier")
    figure = theme.canvas(width, 3.6)
    axes = figure.subplots()
    marks = []
    for _, line in points.iterrows():
        (color, marker, _), accuracy = STYLES[line["kind"]], line["TA_mean"]
        place, ends = drawn(line["share"]), [drawn(line["share_low"]), drawn(line["share_high"])]
        bar: Any = {"color": color, "linewidth": 0.8, "alpha": 0.5, "zorder": 2}
        if line["bound"] > 0:
            axes.plot([min(ends) * (line["share_low"] * line["share_high"] > 0), max(ends)], [accuracy] * 2, **bar)
        if line["TA_sd"] > 0:
            axes.plot([place] * 2, [accuracy - line["TA_sd"], accuracy + line["TA_sd"]], **bar)
        look: Any = {
            "color": color,
            "mfc": color if np.isfinite(line["bound"]) else "none",
            "markersize": 8 if marker == "*" else 5.5,
        }
        axes.plot(place, accuracy, "v" if line["share_high"] < 0 else marker, zorder=3, **look)
        marks.append((place, accuracy))
    front = points[points["front"] & np.isfinite(points["bound"])]
    steps = [*map(drawn, [*front["bound"], WIDEST])]
    axes.plot(np.repeat(steps, 2)[1:-1], np.repeat(front["TA_mean"], 2), zorder=1, **FRONT)
    axes.set_xticks([*map(drawn, TICKS)], [*map(str, TICKS)])
    axes.set(xlabel=theme.fitted("left of what training had put there [%]", width, 44), ylabel="test accuracy [%]")
    axes.grid(axis="x", color=theme.BAND, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.05, y=0.1)
    _legend(figure, points, 3 if width >= WIDTH else 2)
    theme.freeze(figure)
    _name(axes, np.array(marks), points)
    return figure


def _legend(figure: Figure, points: pd.DataFrame, columns: int) -> None:
    """The kinds that occur, what else marks say, and the front."""
    shown = [
        Line2D([], [], marker=marker, color=color, linestyle="none", label=words)
        for kind, (color, marker, words) in STYLES.items()
        if kind in set(points["kind"])
    ]
    present = {"v": (points["share_high"] < 0).any(), "o": not np.isfinite(points["bound"]).all()}
    shown += [
        Line2D([], [], marker=marker, color=theme.GRAY, mfc=face, linestyle="none", label=words)
        for marker, (words, face) in FURTHER.items()
        if present[marker]
    ]
    figure.legend(handles=[*shown, Line2D([], [], label="front", **FRONT)], loc="outside lower center", ncols=columns)


def _name(axes: Axes, places: np.ndarray, points: pd.DataFrame) -> None:
    """Write names and seconds where they hide least, those on the front first. A line leads to what is far off.

    places: (n, 2) of marks, in data; the layout must not change any more.
    """
    figure, frame, unit = axes.figure, axes.get_window_extent(), axes.figure.dpi / 72
    boxes, weights = [], []  # left, bottom, right, top in pixels; how bad it is to hide them
    for drawing in axes.get_lines():
        corners = axes.transData.transform(drawing.get_xydata())
        pad, weight = (4 * unit, 100) if len(corners) == 1 else (unit, 20)
        for first, second in zip(corners, corners[1:] if len(corners) > 1 else corners, strict=False):
            boxes.append([*(np.minimum(first, second) - pad), *(np.maximum(first, second) + pad)])
            weights.append(weight)
    angles, away = np.meshgrid(
        np.linspace(0, 2 * np.pi, 32, endpoint=False), np.array([6, 10, 16, 24, 34, 46, 60]) * unit
    )
    ways, away = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1, 2), away.reshape(-1, 1)
    for number in np.argsort(~points["front"].to_numpy(dtype=bool), kind="stable"):
        line = points.iloc[number]
        seconds = "" if pd.isna(line["seconds"]) else f" {two_digits(line['seconds'])} s"
        style: Any = {"fontweight": "bold" if line["front"] else "normal"}
        text = axes.text(0, 0, line["title"] + seconds, **style)
        half = np.array(text.get_window_extent().size) / 2
        text.remove()
        mark = axes.transData.transform(places[number])
        centers = mark + ways * (away + half)
        low, high, taken = centers - half, centers + half, np.array(boxes)
        shared = np.minimum(high[:, None], taken[:, 2:]) - np.maximum(low[:, None], taken[:, :2])  # (ways, boxes, 2)
        hidden = (shared > 0).all(axis=2) @ np.array(weights)
        outside = ((low < frame.min) | (high > frame.max)).any(axis=1)
        best = int(np.argmin(1000 * outside + hidden + away[:, 0] / unit))
        boxes.append([*low[best], *high[best]])
        weights.append(100)
        axes.annotate(
            text.get_text(),
            tuple(mark / figure.bbox.size),
            tuple(centers[best] / figure.bbox.size),
            xycoords="figure fraction",
            textcoords="figure fraction",
            ha="center",
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": theme.GRAY,
                "linewidth": 0.5 * (away[best, 0] > 12 * unit),
                "shrinkB": 3,
            },
            **style,
        )
