"""Names beside points, placed so that no name covers another name, a point or the frame."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

GAP = 2.0  # points kept free around each name
FAR = 9.0  # points: names further away than this get a line to their point
RADII = (4, 7, 11, 16, 22, 29, 37, 46, 56)  # points
ORDERS = 20  # how many orders of placing the names are tried


class Named(NamedTuple):
    """A point in data coordinates, and its name."""

    name: str
    x: float
    y: float


class Spots(NamedTuple):
    """Where a name could stand around its point, in points. offsets: (S, 2); boxes: (S, 4); costs: (S,)."""

    offsets: np.ndarray
    boxes: np.ndarray
    costs: np.ndarray


class Size(NamedTuple):
    """Of a name, in points."""

    width: float
    height: float


def label_points(axes: Axes, xs: Sequence[float], ys: Sequence[float], names: Sequence[str], obstacles: Sequence[Bbox],
                 bold: str = "") -> list[Annotation]:  # fmt: skip
    """Write each name beside its point (data coordinates), on the nearest spot that is free.

    obstacles: boxes in pixels to keep clear of, such as markers and error bars. The layout must be final
    (theme.freeze). If names overlap in every order of placing them, the order with the least overlap is used.
    """
    scale = axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]  # an axes in a figure has one
    labels = [_label(axes, Named(name, x, y), bold=name == bold) for x, y, name in zip(xs, ys, names, strict=True)]
    extents = [label.get_window_extent() for label in labels]
    sizes = [Size(box.width / scale, box.height / scale) for box in extents]
    points = axes.transData.transform(np.column_stack([xs, ys])) / scale
    fixed = np.array([box.extents for box in obstacles]).reshape(-1, 4) / scale
    frame = np.array([axes.bbox.extents]) / scale
    spots = [_spots(point, size, frame, fixed) for point, size in zip(points, sizes, strict=True)]
    for label, size, around, spot in zip(labels, sizes, spots, _placed(spots), strict=True):
        label.set_position(tuple(around.offsets[spot]))
        if (line := label.arrow_patch) is not None:
            line.set_visible(_distance(around.offsets[spot], size) > FAR)
    return labels


def _label(axes: Axes, point: Named, *, bold: bool) -> Annotation:
    return axes.annotate(
        point.name, (point.x, point.y), (0, 0), textcoords="offset points", ha="center", va="center", zorder=5,
        annotation_clip=False, fontweight="bold" if bold else "normal",
        arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
    )  # fmt: skip


def _distance(offset: np.ndarray, size: Size) -> float:
    """From a point to the edge of a name whose center is off by `offset`."""
    return float(np.hypot(*np.maximum(np.abs(offset) - np.divide(size, 2), 0)))


def _spots(point: np.ndarray, size: Size, frame: np.ndarray, fixed: np.ndarray) -> Spots:
    """Spots in all directions at all radii. frame: (1, 4); fixed: (T, 4).

    A spot costs its distance, and far more for every bit of it that is covered by `fixed` or lies outside the frame.
    """
    radius, angle = (grid.ravel() for grid in np.meshgrid(RADII, np.arange(0, 2 * np.pi, np.pi / 12), indexing="ij"))
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    width, height = size
    offsets = radius[:, None] * direction + np.clip(1.5 * direction, -1, 1) * [width / 2, height / 2]
    half = np.array([width + GAP, height + GAP]) / 2
    boxes = np.concatenate([point + offsets - half, point + offsets + half], axis=1)
    area = 4 * half.prod()
    outside = area - _covered(boxes, frame)[:, 0]
    return Spots(offsets, boxes, radius + 1000 * (outside + _covered(boxes, fixed).sum(axis=1)) / area)


def _placed(spots: Sequence[Spots]) -> list[int]:
    """The number of a spot for each name. Names choose one after the other; those that paid most choose first next."""
    order, best, least = list(range(len(spots))), [0] * len(spots), np.inf
    for _ in range(ORDERS):
        chosen, paid, taken = [0] * len(spots), np.zeros(len(spots)), np.empty((0, 4))
        for name in order:
            boxes = spots[name].boxes
            area = np.prod(boxes[0, 2:] - boxes[0, :2])
            costs = spots[name].costs + 1000 * _covered(boxes, taken).sum(axis=1) / area
            chosen[name], paid[name] = int(costs.argmin()), costs.min()
            taken = np.concatenate([taken, boxes[[chosen[name]]]])
        if paid.sum() < least:
            best, least = chosen, paid.sum()
        order = np.argsort(-paid, kind="stable").tolist()
    return best


def _covered(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The area that each of boxes (S, 4) shares with each of others (T, 4): (S, T)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared: np.ndarray = np.prod(np.maximum(high - low, 0), axis=2)
    return shared
