"""Helpers shared by all figures: sizes, fonts, colors for colorblind readers, checks, and saving."""

import base64
import io
import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from munkey.core.files import atomic_with_checksum, read_bytes, write_text

DOUBLE = 6.8  # inches; the width of both columns of the paper
NARROW = 3.9  # inches; the width for a phone's screen
DPI = 200
LINE_HEIGHT = 0.24  # inches; the height of a row in figures with one row per system

# From the palette of Okabe and Ito, without yellow, which is hard to see on white.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILLION = "#D55E00"
SKY = "#56B4E9"
BLACK = "#000000"
GRAY = "#808080"
BAND = "#dddddd"  # chance bands and grid lines
# For classes: ten colors by Petroff (2021) and ten shapes.
CLASS_COLORS = tuple(to_hex(color) for color in matplotlib.color_sequences["petroff10"])
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "<")
# For lines that share a panel: four more colors that are easy to distinguish from the ten.
LINE_COLORS = (*CLASS_COLORS, "#009e73", "#e377c2", "#5d4a00", "#1f3b73")
LINE_MARKERS = (*CLASS_MARKERS, ">", "h", "d", "8")
# Replacements of colors on dark screens. All other colors are visible on both backgrounds.
DARK = {
    BLACK: "#e6e6e6",
    BLUE.lower(): "#4aa8e0",
    BAND: "#454545",
    "#d9eaf5": "#17394d",
    "#fcefd2": "#4d3b12",
    "#efefef": "#333333",
    "#fdf1ea": "#40261a",
}
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))

THEME: Any = {  # matplotlib's rcParams
    "font.family": "DejaVu Sans",  # ships with matplotlib, and contains ✓ and ✗
    "font.size": 8,
    "text.parse_math": False,  # names may contain $; labels with formulas enable this themselves
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": False,
    "axes.facecolor": "none",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "figure.facecolor": "white",
    "text.hinting": "no_hinting",  # makes text scale exactly with the resolution
}


def point_style(number: int) -> dict[str, Any]:
    """Return the color and marker of a class or a data set. The first ten differ in both."""
    cycle, index = divmod(number, len(CLASS_COLORS))
    return {
        "color": CLASS_COLORS[index],
        "marker": CLASS_MARKERS[(index + cycle) % len(CLASS_MARKERS)],
    }


def line_style(number: int) -> dict[str, Any]:
    """Return the color, marker and dashes of a line. The first fourteen differ in color and marker."""
    index = number % len(LINE_COLORS)
    return {
        "color": LINE_COLORS[index],
        "marker": LINE_MARKERS[index],
        "linestyle": DASHES[number % len(DASHES)],
    }


def spread_heights(places: np.ndarray, step: float) -> np.ndarray:
    """Return heights in [0, 1] that are close to `places`, in the same order, and do not overlap.

    Heights are at least `step` apart, or evenly spaced if there is not enough room.
    """
    order = np.argsort(places, kind="stable")
    # Sorted heights are at least `step` apart if height[i] - i * step does not decrease. So shift
    # the places by i * step, find the closest non-decreasing sequence, and shift it back. The
    # midpoint between the running maximum from the left and the running minimum from the right is
    # non-decreasing, and it minimizes the largest change.
    offsets = np.arange(len(places)) * min(step, 1 / max(len(places) - 1, 1))
    shifted = places[order] - offsets
    running_maximum = np.maximum.accumulate(shifted)
    running_minimum = np.minimum.accumulate(shifted[::-1])[::-1]
    midway = (running_maximum + running_minimum) / 2
    heights = np.empty(len(places))
    heights[order] = np.clip(midway + offsets, offsets, 1 - offsets[::-1])
    return heights


def name_ends(axes: Axes, names: Sequence[str], step: float = 0.085) -> None:
    """Write the names of lines next to a panel, and connect each to the line's last point.

    Parameters
    ----------
    names
        The names of the panel's first lines, in their order.
    step
        The least distance between two names, as a fraction of the panel's height.
    """
    lines = axes.get_lines()[: len(names)]
    last_points = []
    for line in lines:
        last_points.append(np.asarray(line.get_xydata(), dtype=float)[-1])
    # From data coordinates to axes coordinates, in which (1, 1) is the upper right corner.
    ends = axes.transLimits.transform(axes.transScale.transform(last_points))
    heights = spread_heights(ends[:, 1].clip(0, 1), step)
    for line, name, (end_x, end_y), height in zip(lines, names, ends, heights, strict=True):
        axes.annotate(
            name,
            (end_x, np.clip(end_y, 0, 1)),
            (1.05, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.get_color(),
                "linewidth": 0.7,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
        )


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write STEM.svg and STEM.png, and return both paths.

    The PNG has a white background. The SVG has no background and adapts its colors to dark screens;
    its text is drawn as paths, to look the same everywhere. The same figure gives the same bytes.
    Raises OSError if a file cannot be written; partial files are removed.
    """
    svg = stem.with_name(f"{stem.name}.svg")
    png = stem.with_name(f"{stem.name}.png")
    write_text(svg, _render_svg(figure))
    with atomic_with_checksum(png) as temporary:
        figure.savefig(
            temporary, format="png", dpi=DPI, facecolor="white", metadata={"Software": None}
        )
    return [svg, png]


def make_data_url(svg: Figure | Path) -> str:
    """Return a figure or an SVG file as a data URL."""
    if isinstance(svg, Path):
        content = read_bytes(svg)
    else:
        content = _render_svg(svg).encode()
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"


def _render_svg(figure: Figure) -> str:
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "munkey", "svg.fonttype": "path"}):
        figure.savefig(
            text, format="svg", dpi=DPI, facecolor="none", metadata={"Date": None, "Creator": None}
        )
    return _add_dark_colors(text.getvalue())


def _add_dark_colors(svg: str) -> str:
    """Return an SVG with a second set of colors for dark screens.

    matplotlib writes no color for filled black shapes, such as text. A rule for the whole SVG
    changes their color.
    """
    rules = []
    for light, dark in DARK.items():
        for kind in ("fill", "stroke"):
            rules.append(f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}')
    rules.insert(0, f"svg{{fill:{DARK[BLACK]}}}")
    style = f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"
    return re.sub(r"<svg\b[^>]*>", lambda opening: f"{opening[0]}\n {style}", svg, count=1)


def make_canvas(width: float, height: float) -> Figure:
    """Return an empty figure of width x height inches with a constrained layout.

    A figure narrower than DOUBLE is made 20% taller, because its text wraps into more lines.
    """
    if width < DOUBLE:
        height *= 1.2
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def text_figure(text: str, width: float = DOUBLE) -> Figure:
    """Return a figure that contains only text, such as the reason that there is nothing to draw."""
    figure = make_canvas(width, 1.0)
    figure.text(0.5, 0.5, textwrap.fill(text, round(16 * width)), ha="center", va="center")
    return freeze(figure)


def wrap_words(text: str, width: float, letters: int) -> str:
    """Wrap text at `letters` letters per line if a figure of `width` inches is narrow."""
    if width < DOUBLE:
        return textwrap.fill(text, letters)
    return text


def freeze(figure: Figure) -> Figure:
    """Compute the layout, keep it from changing, and return the figure.

    Otherwise, each save would compute a layout that differs by fractions of a point, and the saved
    files would not have the same bytes.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def check_frame(frame: pd.DataFrame, columns: Sequence[str], figure: str) -> pd.DataFrame:
    """Return the frame with its rows numbered from 0.

    Raises ValueError if it has no rows, or if one of the columns has a value that is not finite.
    figure: its name in error messages.
    """
    if frame.empty:
        raise ValueError(f"{figure}: the frame has no rows, so there is nothing to draw")
    bad_columns = []
    for name in columns:
        if not np.isfinite(frame[name].to_numpy(dtype=float)).all():
            bad_columns.append(name)
    if bad_columns:
        raise ValueError(f"{figure}: the columns {bad_columns} contain NaN or infinite values")
    return frame.reset_index(drop=True)


def format_seed_range(counts: "pd.Series[int]") -> str:
    """Return a phrase such as `n = 3`, or `n = 2 to 3` if the counts differ."""
    low = int(counts.min())
    high = int(counts.max())
    if low == high:
        return f"n = {low}"
    return f"n = {low} to {high}"


def describe_seeds(counts: "pd.Series[int]") -> str:
    """Return a phrase that states which statistic a figure shows.

    Parameters
    ----------
    counts
        The number of seeds behind each value.
    """
    if counts.max() > 1:
        return f"mean ± standard deviation over {format_seed_range(counts)} seeds"
    return "one seed, n = 1"


def draw_mean_curve(
    axes: Axes,
    groups: Any,
    color: str,
    top: float = math.inf,
    band_alpha: float = 0.15,
    **line_kwargs: Any,
) -> None:
    """Draw the mean of each group as a line, with a band of ± one standard deviation.

    Parameters
    ----------
    groups
        A pandas SeriesGroupBy, whose keys are the x coordinates.
    top
        The band is clipped to [0, top].
    line_kwargs
        Passed to `Axes.plot`.
    """
    values = groups.agg(["mean", "std"]).fillna({"std": 0.0})
    axes.plot(values.index, values["mean"], color=color, **line_kwargs)
    low = (values["mean"] - values["std"]).clip(0, top)
    high = (values["mean"] + values["std"]).clip(0, top)
    axes.fill_between(values.index, low, high, color=color, alpha=band_alpha, linewidth=0)


def name_lines(axes: Axes, names: Sequence[str], emphasized: str = "") -> None:
    """Label the rows of a panel from top to bottom. The label equal to `emphasized` is bold."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == emphasized else "normal")
