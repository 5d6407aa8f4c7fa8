"""MUNKEY at a glance (fig. 1): the path of an image through memory and backbone, and how a sample is forgotten."""

from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from munkey.report.figures import theme

WIDTH, HEIGHT = 100.0, 46.0
ROWS = 6  # of the memory
FORGOTTEN = (2, 4)
NEAREST = (1, 3)
FILLS = {theme.BLUE: "#d9eaf5", theme.ORANGE: "#fcefd2"}  # of the nearest rows, by the color of their edge


Point = tuple[float, float]  # x and y in the units of the drawing
Box = tuple[float, float, float, float]  # left, bottom, width and height
MEMORY = (41, 17, 17, 24)


@matplotlib.rc_context(theme.THEME | {"text.parse_math": True})
def overview() -> Figure:
    """Frozen encoder, memory of keys and tokens, and the backbone that reads a token beside the image."""
    figure = theme.canvas(9.0, 9.0 * HEIGHT / WIDTH)
    axes = figure.add_subplot()
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT), aspect="equal")
    axes.set_axis_off()
    _lookup(axes)
    _memory(axes)
    _model(axes)
    _forgetting(axes)
    return theme.freeze(figure)


def _box(axes: Axes, box: Box, text: str, color: str, **look: Any) -> None:
    patch: dict[str, Any] = {"facecolor": "none", "edgecolor": color, "linewidth": 1.5} | look
    x, y, width, height = box
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=1", **patch))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center")


def _arrow(axes: Axes, start: Point, end: Point, color: str = theme.BLACK) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 1.2})


def _lookup(axes: Axes) -> None:
    """From the image to its key."""
    _box(axes, (1, 26, 12, 9), "image $x$", theme.BLACK)
    _box(axes, (18, 26, 15, 9), "frozen encoder\n$g_\\varphi$", theme.GRAY, facecolor="#efefef", linestyle="--")
    _arrow(axes, (13, 30.5), (18, 30.5))
    _arrow(axes, (33, 30.5), (40.5, 30.5), theme.BLUE)
    axes.text(36.6, 31.5, "key", ha="center", color=theme.BLUE)


def _memory(axes: Axes) -> None:
    """Rows of key and token; those to be forgotten are dashed, with a cross beside them."""
    left, bottom, width, height = MEMORY
    axes.text(left + width / 2, bottom + height + 1, "exemplar memory $\\mathcal{M}$", ha="center", fontweight="bold")
    step = height / ROWS
    for row in range(ROWS):
        y = bottom + height - (row + 1) * step
        _cell(axes, (left, y, 6.5, step), f"$k_{row + 1}$", theme.BLUE, row)
        _cell(axes, (left + 7, y, width - 7, step), f"token $v_{row + 1}$", theme.ORANGE, row)
        if row in FORGOTTEN:
            axes.plot(left + width + 1.6, y + step / 2, marker="X", color=theme.VERMILLION, markersize=8)
    axes.text(left + width / 2, bottom - 1.7, "filled: the $K$ nearest keys", ha="center", va="center")


def _cell(axes: Axes, box: Box, text: str, color: str, row: int) -> None:
    """A key or a token of a row of the memory."""
    fill, (x, y, width, height) = FILLS[color] if row in NEAREST else "none", box
    look: dict[str, Any] = {"edgecolor": color, "linewidth": 1}
    if row in FORGOTTEN:
        look = {"edgecolor": theme.VERMILLION, "linewidth": 1.2, "linestyle": "--"}
    axes.add_patch(Rectangle((x, y + 0.4), width, height - 0.8, facecolor=fill, **look))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center")


def _model(axes: Axes) -> None:
    """Adapter, backbone with image and token, the average of K passes."""
    _box(axes, (64, 33, 11, 7), "adapter $h_\\psi$", theme.PURPLE)
    axes.text(61, 38, "$K$\ntokens", ha="center", va="center", color=theme.ORANGE)
    _arrow(axes, (58.6, 35.2), (64, 36.5), theme.ORANGE)
    _box(axes, (64, 19, 20, 10), "ViT backbone $f_\\theta$\n[CLS] · patches · token", theme.GREEN)
    _arrow(axes, (69.5, 33), (69.5, 29), theme.PURPLE)
    axes.plot([7, 7, 62], [26, 13.6, 13.6], color=theme.BLACK, linewidth=1.2)
    _arrow(axes, (62, 13.6), (66.5, 19))
    axes.text(22, 14.4, "the image itself, as patch embeddings", ha="center")
    _box(axes, (88, 19, 11, 10), "weighted\naverage of\n$K$ passes", theme.BLACK)
    _arrow(axes, (84, 24), (88, 24))
    _arrow(axes, (93.5, 29), (93.5, 34))
    axes.text(93.5, 36.2, "prediction", ha="center", va="center", fontweight="bold")


def _forgetting(axes: Axes) -> None:
    """The rule for forgetting, below everything else."""
    _box(axes, (1, 1, 98, 8), "", theme.VERMILLION, facecolor="#fdf1ea")
    memory = "$\\mathcal{M}_u = \\mathcal{M} \\setminus \\{(k_i, v_i) : i \\in D_f\\}$"
    rule = f"To forget a sample, delete its row:  {memory}.  No training, no data, milliseconds; no weight changes."
    axes.plot(5, 5, marker="X", color=theme.VERMILLION, markersize=8)
    axes.text(52, 5, rule, ha="center", va="center")
