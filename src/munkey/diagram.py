"""MUNKEY at a glance (fig. 1): the path of an image through memory and backbone, and what forgetting is."""

from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from munkey.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, STYLE, VERMILLION, canvas, freeze

WIDE, HIGH = 100.0, 46.0
ROWS = 6
FORGOTTEN = (2, 4)
NEAREST = (1, 3)


@matplotlib.rc_context(STYLE)
def overview() -> Figure:
    """Frozen encoder, memory of keys and tokens, and the backbone that reads a token beside the image."""
    figure = canvas(9.0, 9.0 * HIGH / WIDE)
    axes = figure.add_subplot()
    axes.set(xlim=(0, WIDE), ylim=(0, HIGH), aspect="equal")
    axes.set_axis_off()
    _lookup(axes)
    _memory(axes)
    _model(axes)
    _forgetting(axes)
    return freeze(figure)


def _box(axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str, **look: Any) -> None:
    style: dict[str, Any] = {"facecolor": "white", "edgecolor": colour, "linewidth": 1.5} | look
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=1", **style))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center")


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = BLACK) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.2})


def _lookup(axes: Axes) -> None:
    """Image, key."""
    _box(axes, 1, 26, 12, 9, "image $x$", BLACK)
    _box(axes, 18, 26, 15, 9, "frozen encoder\n$g_\\varphi$", GREY, facecolor="#efefef", linestyle="--")
    _arrow(axes, (13, 30.5), (18, 30.5))
    _arrow(axes, (33, 30.5), (40.5, 30.5), BLUE)
    axes.text(36.6, 31.5, "key", ha="center", color=BLUE)


def _memory(axes: Axes) -> None:
    """Rows of key and token; those to be forgotten are struck out."""
    left, bottom, width, height = 41, 17, 17, 24
    axes.text(left + width / 2, bottom + height + 1, "exemplar memory $\\mathcal{M}$", ha="center", fontweight="bold")
    step = height / ROWS
    for row in range(ROWS):
        y = bottom + height - (row + 1) * step
        near = row in NEAREST
        for x, wide, name, colour in (
            (left, 6.5, f"$k_{row + 1}$", BLUE),
            (left + 7, width - 7, f"token $v_{row + 1}$", ORANGE),
        ):
            face = {BLUE: "#d9eaf5", ORANGE: "#fcefd2"}[colour] if near else "white"
            axes.add_patch(Rectangle((x, y + 0.4), wide, step - 0.8, facecolor=face, edgecolor=colour, linewidth=1))
            axes.text(
                x + wide / 2, y + step / 2, name, ha="center", va="center", color=GREY if row in FORGOTTEN else BLACK
            )
        if row in FORGOTTEN:
            axes.plot([left - 1, left + width + 1], [y + step / 2] * 2, color=VERMILLION, linewidth=2)
    axes.text(left - 2.2, bottom - 2.2, "$K$ nearest keys: filled rows", ha="left", va="center", fontsize=8)


def _model(axes: Axes) -> None:
    """Adapter, backbone with image and token, the average of K passes."""
    _box(axes, 64, 33, 11, 7, "adapter $h_\\psi$", PURPLE)
    axes.text(61, 38, "$K$\ntokens", ha="center", va="center", color=ORANGE)
    _arrow(axes, (58.6, 35.2), (64, 36.5), ORANGE)
    _box(axes, 64, 19, 20, 10, "ViT backbone $f_\\theta$\n[CLS] · patches · token", GREEN)
    _arrow(axes, (69.5, 33), (69.5, 29), PURPLE)
    axes.plot([7, 7, 62], [26, 13.6, 13.6], color=BLACK, linewidth=1.2)
    _arrow(axes, (62, 13.6), (66.5, 19))
    axes.text(24, 14.4, "the image itself, as patch embeddings", ha="center")
    _box(axes, 88, 19, 11, 10, "weighted\naverage of\n$K$ passes", BLACK)
    _arrow(axes, (84, 24), (88, 24))
    _arrow(axes, (93.5, 29), (93.5, 34))
    axes.text(93.5, 36.2, "prediction", ha="center", va="center", fontweight="bold")


def _forgetting(axes: Axes) -> None:
    _box(axes, 1, 1, 98, 8, "", VERMILLION, facecolor="#fdf1ea")
    rows = "$\\mathcal{M}_u = \\mathcal{M} \\setminus \\{(k_i, v_i) : i \\in D_f\\}$"
    told = f"To forget a sample, delete its row:  {rows}.  No training, no data, milliseconds; no weight changes."
    axes.text(50, 5, told, ha="center", va="center")
