"""The common look of all figures: page widths, fonts, colors that are safe for colorblind readers, and saving."""

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
ROW_HEIGHT = 0.24  # inches, in figures with a row for each system

# The palette of Okabe and Ito, without yellow, which is hard to see on white.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILLION = "#D55E00"
SKY = "#56B4E9"
BLACK = "#000000"
GRAY = "#808080"
BAND = "#dddddd"  # grid lines, and bands where points lie by chance
# For classes: ten colors by Petroff (2021), and ten shapes.
CLASS_COLORS = tuple(to_hex(color) for color in matplotlib.color_sequences["petroff10"])
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "<")
# For lines in one panel: four more, which are distinct from the ten.
LINE_COLORS = (*CLASS_COLORS, "#009e73", "#e377c2", "#5d4a00", "#1f3b73")
LINE_MARKERS = (*CLASS_MARKERS, ">", "h", "d", "8")
# Replacements on a dark screen; all other colors are visible on both backgrounds.
DARK = {
    **{BLACK: "#e6e6e6", BLUE.lower(): "#4aa8e0", BAND: "#454545"},
    **{"#d9eaf5": "#17394d", "#fcefd2": "#4d3b12", "#efefef": "#333333", "#fdf1ea": "#40261a"},
}
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))

THEME: Any = {  # matplotlib's rcParams
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is available everywhere, and has ✓ and ✗
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
    "text.hinting": "no_hinting",  # text scales exactly with the resolution, so layouts stay valid
}


def point_style(number: int) -> dict[str, Any]:
    """Return a color and a marker for a class or a data set; the first ten have no color or marker in common."""
    turn, index = divmod(number, len(CLASS_COLORS))
    return {
        "color": CLASS_COLORS[index],
        "marker": CLASS_MARKERS[(index + turn) % len(CLASS_MARKERS)],
    }


def line_style(number: int) -> dict[str, Any]:
    """Return a color, a marker and dashes for a line; the first fourteen have no color or marker in common."""
    index = number % len(LINE_COLORS)
    return {
        "color": LINE_COLORS[index],
        "marker": LINE_MARKERS[index],
        "linestyle": DASHES[number % len(DASHES)],
    }


def spread_heights(places: np.ndarray, step: float) -> np.ndarray:
    """Return heights in [0, 1] near `places`, in the same order, at least `step` apart if possible."""
    order = np.argsort(places, kind="stable")
    # Heights are at least `step` apart if, after subtracting multiples of `step`, they do not
    # decrease. The non-decreasing sequence with the smallest maximal distance to the shifted places
    # is midway between their running maximum from below and their running minimum from above.
    offsets = np.arange(len(places)) * min(step, 1 / max(len(places) - 1, 1))
    shifted = places[order] - offsets
    highest_below = np.maximum.accumulate(shifted)
    lowest_above = np.minimum.accumulate(shifted[::-1])[::-1]
    midway = (highest_below + lowest_above) / 2
    heights = np.empty(len(places))
    heights[order] = np.clip(midway + offsets, offsets, 1 - offsets[::-1])
    return heights


def label_line_ends(axes: Axes, names: Sequence[str], step: float = 0.085) -> None:
    """Write the names of lines next to a panel, each connected to the last point of its line."""
    lines = axes.get_lines()[: len(names)]
    last_points = []
    for line in lines:
        last_points.append(np.asarray(line.get_xydata(), dtype=float)[-1])
    # From data to axes coordinates, in which (1, 1) is the upper right corner of the panel.
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
    """Write STEM.svg and STEM.png. Returns both paths.

    The SVG has text as paths, so that it looks the same everywhere, no background, and other colors
    on dark screens. The PNG has a white background. The same figure always gives the same bytes.
    Raises OSError if a file cannot be written; no incomplete file remains.
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
    """Return a figure, or an SVG file, as a data URL."""
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
    """Add a second set of colors for dark screens to an SVG.

    matplotlib writes no color for filled black shapes, such as text, so a rule for the whole SVG
    replaces it.
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

    A figure narrower than DOUBLE is a fifth higher, since its text wraps into more lines.
    """
    if width < DOUBLE:
        height *= 1.2
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def text_figure(message: str, width: float = DOUBLE) -> Figure:
    """Draw a figure with only a message, e.g. why there is nothing to draw."""
    figure = canvas(width, 1.0)
    # An inch holds about 16 characters.
    figure.text(0.5, 0.5, textwrap.fill(message, round(16 * width)), ha="center", va="center")
    return freeze(figure)


def wrap_if_narrow(text: str, width: float, characters: int) -> str:
    """Wrap text into lines of at most `characters` in a figure that is narrower than DOUBLE."""
    if width < DOUBLE:
        return textwrap.fill(text, characters)
    return text


def freeze(figure: Figure) -> Figure:
    """Compute the figure's layout for the last time, and return the figure.

    A new layout at every save would move elements by fractions of a point, and change the bytes.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def check_frame(frame: pd.DataFrame, columns: Sequence[str], figure: str) -> pd.DataFrame:
    """Return the frame with its rows numbered from 0.

    Raises ValueError if the frame has no rows, or if one of the columns has values that are not
    finite.
    """
    if frame.empty:
        raise ValueError(f"{figure}: the frame has no rows, so there is nothing to draw")
    bad_columns = []
    for name in columns:
        if not np.isfinite(frame[name].to_numpy(dtype=float)).all():
            bad_columns.append(name)
    if bad_columns:
        raise ValueError(
            f"{figure}: the columns {bad_columns} have values that are NaN or infinite"
        )
    return frame.reset_index(drop=True)


def format_seed_range(counts: "pd.Series[int]") -> str:
    """Format a number of seeds: `n = 3`, or `n = 2 to 3` if the counts differ."""
    low = int(counts.min())
    high = int(counts.max())
    if low == high:
        return f"n = {low}"
    return f"n = {low} to {high}"


def describe_statistic(counts: "pd.Series[int]") -> str:
    """Describe the statistic in a figure, given the number of seeds behind each value."""
    if counts.max() > 1:
        return f"mean ± standard deviation over {format_seed_range(counts)} seeds"
    return "one seed, n = 1"


def draw_mean_curve(
    axes: Axes, groups: Any, color: str, top: float = math.inf, alpha: float = 0.15, **look: Any
) -> None:
    """Draw the means of `groups` as a line over their keys, in a band of one standard deviation.

    The band is clipped at 0 and at `top`. A group with a single value has no band.

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
    """Label the rows of a panel, the first at the top, the emphasized one in bold."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == emphasized else "normal")
