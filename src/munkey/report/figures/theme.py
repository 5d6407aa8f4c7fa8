"""What all figures share: page widths, fonts, colors that colorblind readers can tell apart, checks, and saving."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from munkey.core.files import sealed

SINGLE, DOUBLE = 3.3, 6.8  # inches: one column of the paper, and both
DPI = 200

# The palette of Okabe and Ito; yellow is left out because it vanishes on white.
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GRAY = "#CC79A7", "#56B4E9", "#000000", "#808080"
PALETTE = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK, GRAY)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # 7 and 8 share no divisor: 56 different pairs with PALETTE
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))

THEME: Any = {  # as matplotlib wants it
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere, and has ✓ and ✗
    "font.size": 8,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": False,
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


class PointStyle(NamedTuple):
    """A color and a marker."""

    color: str
    marker: str


def point_style(number: int) -> PointStyle:
    """A color and a marker for a class or a data set; the first 56 differ."""
    return PointStyle(PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)])


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write STEM.svg (text as paths, so that it looks the same everywhere) and STEM.png; returns both paths.

    The same figure gives the same bytes. Raises OSError where a file cannot be written; no half file is left.
    """
    metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    paths = []
    with matplotlib.rc_context({"svg.hashsalt": "munkey", "svg.fonttype": "path"}):
        for kind, entries in metadata.items():
            path = stem.with_name(f"{stem.name}.{kind}")
            with sealed(path) as temporary:
                figure.savefig(temporary, format=kind, dpi=DPI, facecolor="white", metadata=entries)
            paths.append(path)
    return paths


def canvas(width: float, height: float) -> Figure:
    """An empty figure of width x height inches whose layout keeps all text inside."""
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def freeze(figure: Figure) -> Figure:
    """Lay the figure out once and for all: a new layout at every save would move things by fractions of a point."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


@matplotlib.rc_context(THEME)
def words(text: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    figure = canvas(DOUBLE, 1.0)
    figure.text(0.5, 0.5, text, ha="center", va="center")
    return freeze(figure)


def checked(frame: pd.DataFrame, columns: Sequence[str], numbers: Sequence[str], figure: str) -> pd.DataFrame:
    """The `columns` of a frame. Raises ValueError for no rows, missing columns, or `numbers` that are not finite."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"{figure}: the frame lacks the columns {missing}")
    if frame.empty:
        raise ValueError(f"{figure}: the frame has no rows, so there is nothing to draw")
    bad = [name for name in numbers if not np.isfinite(frame[name].to_numpy(dtype=float)).all()]
    if bad:
        raise ValueError(f"{figure}: the columns {bad} hold values that are NaN or infinite")
    return frame[list(columns)].reset_index(drop=True)


def seed_count(counts: "pd.Series[int]") -> str:
    """`n = 3`, or `n = 2 to 3` where the number of seeds differs."""
    low, high = int(counts.min()), int(counts.max())
    return f"n = {low}" if low == high else f"n = {low} to {high}"
