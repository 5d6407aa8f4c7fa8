"""Shared by all figures: page widths, fonts, colors that colorblind readers can tell apart, checks, and saving."""

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

DOUBLE = 6.8  # inches: both columns of the paper
NARROW = 3.9  # inches: a phone's screen
DPI = 200
LINE_HEIGHT = 0.24  # inches, of a line of a figure with a line for each system

# Of the palette of Okabe and Ito, without yellow, which vanishes on white.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILLION = "#D55E00"
SKY = "#56B4E9"
BLACK = "#000000"
GRAY = "#808080"
BAND = "#dddddd"  # behind points: where they would lie by chance; also grid lines
# Of classes: ten colors by Petroff (2021) and ten shapes.
CLASS_COLORS = tuple(to_hex(color) for color in matplotlib.color_sequences["petroff10"])
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "<")
# Of lines that share a panel: four more, which none of the ten is taken for.
LINE_COLORS = (*CLASS_COLORS, "#009e73", "#e377c2", "#5d4a00", "#1f3b73")
LINE_MARKERS = (*CLASS_MARKERS, ">", "h", "d", "8")
# What a color turns into on a dark screen; all others can be seen on both.
DARK = {
    **{BLACK: "#e6e6e6", BLUE.lower(): "#4aa8e0", BAND: "#454545"},
    **{"#d9eaf5": "#17394d", "#fcefd2": "#4d3b12", "#efefef": "#333333", "#fdf1ea": "#40261a"},
}
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))

THEME: Any = {  # as matplotlib wants it
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere, and has ✓ and ✗
    "font.size": 8,
    "text.parse_math": False,  # a name may contain $; formulas enable it themselves
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
    "text.hinting": "no_hinting",  # text then scales exactly with the resolution: what fits once always fits
}


def point_style(number: int) -> dict[str, Any]:
    """Return a color and a marker for a class or a data set; of the first ten, no two share either."""
    turn, place = divmod(number, len(CLASS_COLORS))
    return {
        "color": CLASS_COLORS[place],
        "marker": CLASS_MARKERS[(place + turn) % len(CLASS_MARKERS)],
    }


def line_style(number: int) -> dict[str, Any]:
    """Return a color, a marker and dashes for a line; of the first fourteen, no two share a color or a marker."""
    place = number % len(LINE_COLORS)
    return {
        "color": LINE_COLORS[place],
        "marker": LINE_MARKERS[place],
        "linestyle": DASHES[number % len(DASHES)],
    }


def spread_heights(places: np.ndarray, step: float) -> np.ndarray:
    """Return heights near `places`, all in [0, 1], in the same order, and at least `step` apart where there is room."""
    order = np.argsort(places, kind="stable")
    # Heights are at least `step` apart if heights less multiples of `step` do not decrease. So we
    # look for the non-decreasing sequence that is nearest to the shifted places: midway between
    # their running maximum from below and their running minimum from above, the largest move is
    # as small as it can be.
    offsets = np.arange(len(places)) * min(step, 1 / max(len(places) - 1, 1))
    shifted = places[order] - offsets
    highest_below = np.maximum.accumulate(shifted)
    lowest_above = np.minimum.accumulate(shifted[::-1])[::-1]
    midway = (highest_below + lowest_above) / 2
    heights = np.empty(len(places))
    heights[order] = np.clip(midway + offsets, offsets, 1 - offsets[::-1])
    return heights


def label_line_ends(axes: Axes, names: Sequence[str], step: float = 0.085) -> None:
    """Write the names of lines beside a panel, near their last points; a thin line in its color leads to each."""
    lines = axes.get_lines()[: len(names)]
    last_points = []
    for line in lines:
        last_points.append(np.asarray(line.get_xydata(), dtype=float)[-1])
    # From data to widths and heights of the panel, where (1, 1) is its upper right corner.
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
    """Write STEM.svg (text as paths, so that it looks the same everywhere) and STEM.png; returns both paths.

    The PNG is on white. The SVG has no background, and other colors where the reader's screen is
    dark. The same figure gives the same bytes. Raises OSError where a file cannot be written; no
    half file is left.
    """
    svg = stem.with_name(f"{stem.name}.svg")
    png = stem.with_name(f"{stem.name}.png")
    write_text(svg, _svg(figure))
    with atomic_with_checksum(png) as temporary:
        figure.savefig(
            temporary, format="png", dpi=DPI, facecolor="white", metadata={"Software": None}
        )
    return [svg, png]


def make_data_url(svg: Figure | Path) -> str:
    """Return an SVG, drawn or in a file, as a data URL."""
    if isinstance(svg, Path):
        content = read_bytes(svg)
    else:
        content = _svg(svg).encode()
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "munkey", "svg.fonttype": "path"}):
        figure.savefig(
            text, format="svg", dpi=DPI, facecolor="none", metadata={"Date": None, "Creator": None}
        )
    return _for_dark_screens(text.getvalue())


def _for_dark_screens(svg: str) -> str:
    """Return an SVG that has a second set of colors for dark screens.

    matplotlib writes no color for filled black shapes, text above all: the rule for the whole SVG
    turns them.
    """
    rules = []
    for light, dark in DARK.items():
        for kind in ("fill", "stroke"):
            rules.append(f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}')
    rules.insert(0, f"svg{{fill:{DARK[BLACK]}}}")
    style = f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"
    return re.sub(r"<svg\b[^>]*>", lambda opening: f"{opening[0]}\n {style}", svg, count=1)


def canvas(width: float, height: float) -> Figure:
    """Return an empty figure of width x height inches whose layout keeps all text inside.

    A figure narrower than DOUBLE gets a fifth more height, as its words break into more lines.
    """
    if width < DOUBLE:
        height *= 1.2
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def text_figure(words: str, width: float = DOUBLE) -> Figure:
    """Draw a figure that holds only words, which say why there is nothing to draw."""
    figure = canvas(width, 1.0)
    figure.text(0.5, 0.5, textwrap.fill(words, round(16 * width)), ha="center", va="center")
    return freeze(figure)


def wrap_words(words: str, width: float, letters: int) -> str:
    """Break words into lines of at most `letters` letters if a figure of `width` inches is a narrow one."""
    if width < DOUBLE:
        return textwrap.fill(words, letters)
    return words


def freeze(figure: Figure) -> Figure:
    """Lay the figure out once and for all, and return it.

    A new layout at every save would move things by fractions of a point, and so change the bytes.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def check_frame(frame: pd.DataFrame, columns: Sequence[str], figure: str) -> pd.DataFrame:
    """Return the frame with its rows numbered from 0.

    Raises ValueError for a frame without rows, or if one of the columns holds values that are not
    finite.
    """
    if frame.empty:
        raise ValueError(f"{figure}: the frame has no rows, so there is nothing to draw")
    bad = []
    for name in columns:
        if not np.isfinite(frame[name].to_numpy(dtype=float)).all():
            bad.append(name)
    if bad:
        raise ValueError(f"{figure}: the columns {bad} hold values that are NaN or infinite")
    return frame.reset_index(drop=True)


def format_seed_range(counts: "pd.Series[int]") -> str:
    """Return the number of seeds in words: `n = 3`, or `n = 2 to 3` if the counts differ."""
    low = int(counts.min())
    high = int(counts.max())
    if low == high:
        return f"n = {low}"
    return f"n = {low} to {high}"


def describe_statistic(counts: "pd.Series[int]") -> str:
    """Return in words which statistic a figure shows, given the number of seeds of each value."""
    if counts.max() > 1:
        return f"mean ± standard deviation over {format_seed_range(counts)} seeds"
    return "one seed, n = 1"


def draw_mean_curve(
    axes: Axes, groups: Any, color: str, top: float = math.inf, alpha: float = 0.15, **look: Any
) -> None:
    """Draw a line at the means of `groups` over their keys, in a band of one standard deviation.

    The band ends at 0 and at `top`. A group of one value has no band.

    Parameters
    ----------
    groups
        A pandas GroupBy of one column.
    look
        Keyword arguments of the line for matplotlib.
    """
    values = groups.agg(["mean", "std"]).fillna({"std": 0.0})
    axes.plot(values.index, values["mean"], color=color, **look)
    low = (values["mean"] - values["std"]).clip(0, top)
    high = (values["mean"] + values["std"]).clip(0, top)
    axes.fill_between(values.index, low, high, color=color, alpha=alpha, linewidth=0)


def label_rows(axes: Axes, names: Sequence[str], emphasized: str = "") -> None:
    """Write the names of the lines of a panel, the first at the top, the emphasized one in bold."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == emphasized else "normal")
