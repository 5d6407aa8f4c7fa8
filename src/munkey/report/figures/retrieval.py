"""Retrieval (fig. 3): samples and their neighbors before and after deletion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from munkey.report.figures import theme

Status = Literal["correct", "wrong class", "forgotten", "new"]
# By the status of a neighbor: color, line and words; the lines differ as well as the colors.
BORDERS: dict[Status, tuple[str, Any, str]] = {
    "correct": (theme.GREEN, "-", "same class"),
    "wrong class": (theme.ORANGE, "--", "wrong class"),
    "forgotten": (theme.PURPLE, ":", "forgotten"),
    "new": (theme.BLUE, "-.", "new neighbor"),
}


@dataclass(frozen=True)
class RetrievedNeighbor:
    """A neighbor: image (H, W, 3) uint8, class, weight of its token, and status for the query."""

    image: np.ndarray
    label: str
    weight: float
    status: Status


@dataclass(frozen=True)
class Answer:
    """What a query retrieves, nearest first, and the class that is predicted then."""

    neighbors: list[RetrievedNeighbor]
    predicted: str


@dataclass(frozen=True)
class Example:
    """A query, image (H, W, 3) uint8 and class, with its answers before and after deletion."""

    title: str
    image: np.ndarray
    label: str
    before: Answer
    after: Answer


@matplotlib.rc_context(theme.THEME)
def retrieval_plot(examples: Sequence[Example]) -> Figure:
    """Draw two rows of pictures per sample: its neighbors before deletion, and after.

    A new neighbor is one that was not retrieved before; in parentheses stands whether it has the
    query's class.
    """
    counts = []
    for example in examples:
        counts += [len(example.before.neighbors), len(example.after.neighbors)]
    columns = 1 + max(counts)
    row_height = theme.DOUBLE / (columns + 0.5) + 0.35  # a square picture, and words below it
    figure = theme.canvas(theme.DOUBLE, 0.5 + 2 * len(examples) * row_height)
    grid = figure.subplots(
        2 * len(examples), columns, squeeze=False, width_ratios=[1.25] + [1] * (columns - 1)
    )
    for number, example in enumerate(examples):
        _draw_row(grid[2 * number], example, example.before, "before")
        _draw_row(grid[2 * number + 1], example, example.after, "after")
    handles = []
    for color, line, words in BORDERS.values():
        look: Any = {"edgecolor": color, "linestyle": line, "label": words}
        handles.append(Patch(fill=False, linewidth=2, **look))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, handlelength=3)
    return theme.freeze(figure)


def _draw_row(row: np.ndarray, example: Example, answer: Answer, when: str) -> None:
    """Draw the query, then its neighbors.

    Parameters
    ----------
    row
        The axes of the row; those behind the last neighbor stay empty.
    """
    color = theme.VERMILLION
    sign = "✗"
    if answer.predicted == example.label:
        color = theme.GREEN
        sign = "✓"
    _draw_picture(row[0], example.image, theme.BLACK, "-", 0.8)
    row[0].set_ylabel(f"{example.title}\n{when} deletion", fontweight="bold")
    row[0].set_xlabel(
        f"true class {example.label}\n{sign} predicted {answer.predicted}", color=color
    )
    for axes, neighbor in zip(row[1:], answer.neighbors, strict=False):
        border_color, line, _ = BORDERS[neighbor.status]
        _draw_picture(axes, neighbor.image, border_color, line, 2.5)
        words = f"{neighbor.weight:.2f}\n{neighbor.label}"
        if neighbor.status == "new":
            words += " (same)" if neighbor.label == example.label else " (other)"
        axes.set_xlabel(words)
    for axes in row[1 + len(answer.neighbors) :]:
        axes.set_axis_off()


def _draw_picture(axes: Axes, image: np.ndarray, color: str, line: Any, width: float) -> None:
    axes.imshow(image, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=color, linestyle=line, linewidth=width)
