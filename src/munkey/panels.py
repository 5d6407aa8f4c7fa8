"""Retrieval panels (fig. 3): a query and its neighbours before and after deletion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from munkey.style import BLACK, BLUE, DOUBLE, GREEN, ORANGE, PURPLE, STYLE, VERMILLION, canvas, freeze

Status = Literal["correct", "wrong class", "forgotten", "new"]
FRAMES: dict[str, tuple[str, Any]] = {  # colour and line of a neighbour's frame: told apart without colour too
    "correct": (GREEN, "-"),
    "wrong class": (ORANGE, "--"),
    "forgotten": (PURPLE, ":"),
    "new": (BLUE, "-."),
}


@dataclass(frozen=True)
class Neighbor:
    """A retrieved sample: image (H, W, 3) uint8, class, weight of its token, and what it is to the query."""

    image: np.ndarray
    label: str
    weight: float
    status: Status


@dataclass(frozen=True)
class Retrieval:
    """A query, what it retrieves before and after deletion, and what is predicted then."""

    title: str
    image: np.ndarray
    label: str
    before: list[Neighbor]
    predicted_before: str
    after: list[Neighbor]
    predicted_after: str


@matplotlib.rc_context(STYLE)
def retrieval(rows: Sequence[Retrieval]) -> Figure:
    """Two lines of pictures for each sample: what it retrieves before deletion, and after.

    A new neighbour is one that was not retrieved before; in brackets stands whether it has the query's class. Raises
    ValueError for no rows, or a status that is not known.
    """
    if not rows:
        raise ValueError("retrieval: no samples, so there is nothing to draw")
    unknown = {n.status for row in rows for n in (*row.before, *row.after)} - set(FRAMES)
    if unknown:
        raise ValueError(f"retrieval: unknown status {sorted(unknown)}; there are {', '.join(FRAMES)}")
    columns = 1 + max(len(found) for row in rows for found in (row.before, row.after))
    figure = canvas(DOUBLE, 0.5 + 2 * len(rows) * (DOUBLE / (columns + 0.5) + 0.35))
    grid = figure.subplots(2 * len(rows), columns, squeeze=False, width_ratios=[1.25] + [1] * (columns - 1))
    for place, row in enumerate(rows):
        steps = (("before", row.before, row.predicted_before), ("after", row.after, row.predicted_after))
        for line, (when, found, predicted) in enumerate(steps):
            _query(grid[2 * place + line, 0], row, when, predicted)
            for axes, neighbor in zip(grid[2 * place + line, 1:], found, strict=False):
                _neighbor(axes, neighbor, row.label)
            for axes in grid[2 * place + line, 1 + len(found) :]:
                axes.set_axis_off()
    handles = [Patch(fill=False, edgecolor=c, linestyle=s, linewidth=2, label=name) for name, (c, s) in FRAMES.items()]
    names = ["same class", "wrong class", "forgotten", "new neighbour"]
    figure.legend(handles, names, loc="outside lower center", ncols=4, handlelength=3)
    return freeze(figure)


def _query(axes: Axes, row: Retrieval, when: str, predicted: str) -> None:
    right = predicted == row.label
    _picture(axes, row.image, BLACK, "-", 0.8)
    axes.set_ylabel(f"{row.title}\n{when} deletion", fontweight="bold")
    mark = f"{'✓' if right else '✗'} predicted {predicted}"
    axes.set_xlabel(f"true class {row.label}\n{mark}", color=GREEN if right else VERMILLION)


def _neighbor(axes: Axes, neighbor: Neighbor, wanted: str) -> None:
    colour, line = FRAMES[neighbor.status]
    _picture(axes, neighbor.image, colour, line, 2.5)
    same = {"new": " (same)" if neighbor.label == wanted else " (other)"}.get(neighbor.status, "")
    axes.set_xlabel(f"{neighbor.weight:.2f}\n{neighbor.label}{same}")


def _picture(axes: Axes, image: np.ndarray, colour: str, line: str, width: float) -> None:
    axes.imshow(image, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linestyle=line, linewidth=width)
