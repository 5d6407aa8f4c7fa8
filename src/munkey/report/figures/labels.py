"""Names beside points, placed so that no name covers another name, a point or the frame, and no lines cross."""

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
ALONG = np.linspace(0.2, 0.9, 10)  # where a line to a point is checked, as shares of its length
# What it costs, in points of distance: to be covered, to be covered by a thin bar, a place where a line hits something.
COVERED, BARRED, HIT = 1000.0, 100.0, 20.0


class Named(NamedTuple):
    """A point in data coordinates, and its name."""

    name: str
    x: float
    y: float


class Obstacles(NamedTuple):
    """Boxes in pixels to keep clear of: marks of points, and thin bars, which a name may cover if it must."""

    marks: Sequence[Bbox]
    bars: Sequence[Bbox] = ()


class Spots(NamedTuple):
    """Where a name could stand around its point, in points.

    offsets: (S, 2); boxes: (S, 4); lines: (S, L, 2), places along the line to the point, all within the name where
    there is none; costs: (S,).
    """

    offsets: np.ndarray
    boxes: np.ndarray
    lines: np.ndarray
    costs: np.ndarray


class Size(NamedTuple):
    """Of a name, in points."""

    width: float
    height: float


def label_points(axes: Axes, points: Sequence[Named], obstacles: Obstacles, bold: str = "") -> list[Annotation]:
    """Write each name beside its point, on the nearest spot that is free.

    The layout must be final (theme.freeze). If names overlap in every order of placing them, the order with the least
    overlap is used.
    """
    scale = axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]  # an axes in a figure has one
    labels = [_label(axes, point, bold=point.name == bold) for point in points]
    extents = [label.get_window_extent() for label in labels]
    sizes = [Size(box.width / scale, box.height / scale) for box in extents]
    places = axes.transData.transform([(point.x, point.y) for point in points]) / scale
    marks, bars = (np.array([box.extents for box in boxes]).reshape(-1, 4) / scale for boxes in obstacles)
    frame = np.array([axes.bbox.extents]) / scale
    spots = [_priced(_spots(place, size), frame, marks, bars) for place, size in zip(places, sizes, strict=True)]
    for label, size, around, spot in zip(labels, sizes, spots, _placed(spots), strict=True):
        label.set_position(tuple(around.offsets[spot]))
        if (line := label.arrow_patch) is not None:
            line.set_visible(bool(_distances(around.offsets[[spot]], size)[0] > FAR))
    return labels


def _label(axes: Axes, point: Named, *, bold: bool) -> Annotation:
    return axes.annotate(
        point.name, (point.x, point.y), (0, 0), textcoords="offset points", ha="center", va="center", zorder=5,
        annotation_clip=False, fontweight="bold" if bold else "normal",
        arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
    )  # fmt: skip


def _distances(offsets: np.ndarray, size: Size) -> np.ndarray:
    """From a point to the edge of a name whose center is off by each of `offsets` (S, 2): (S,)."""
    return np.hypot(*np.maximum(np.abs(offsets) - np.divide(size, 2), 0).T)


def _spots(point: np.ndarray, size: Size) -> Spots:
    """Spots in all directions at all radii; each costs its distance."""
    radius, angle = (grid.ravel() for grid in np.meshgrid(RADII, np.arange(0, 2 * np.pi, np.pi / 12), indexing="ij"))
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    width, height = size
    offsets = radius[:, None] * direction + np.clip(1.5 * direction, -1, 1) * [width / 2, height / 2]
    half = np.array([width + GAP, height + GAP]) / 2
    boxes = np.concatenate([point + offsets - half, point + offsets + half], axis=1)
    along = np.where(_distances(offsets, size)[:, None] > FAR, ALONG, 1.0)
    lines = point + along[:, :, None] * offsets[:, None, :]
    return Spots(offsets, boxes, lines, radius.astype(float))


def _priced(spots: Spots, frame: np.ndarray, marks: np.ndarray, bars: np.ndarray) -> Spots:
    """Spots that cost more where they lie outside the frame (1, 4), cover marks (M, 4) or bars (B, 4), or their line
    crosses a mark."""
    area = _area(spots)
    outside = area - _covered(spots.boxes, frame)[:, 0]
    covered, barred = (_covered(spots.boxes, boxes).sum(axis=1) for boxes in (marks, bars))
    price = (COVERED * (outside + covered) + BARRED * barred) / area + HIT * _hits(spots.lines, marks)
    return spots._replace(costs=spots.costs + price)


def _placed(spots: Sequence[Spots]) -> list[int]:
    """The number of a spot for each name. Names choose one after the other; those that paid most choose first next."""
    order, best, least = list(range(len(spots))), [0] * len(spots), np.inf
    for _ in range(ORDERS):
        chosen, paid, taken = [0] * len(spots), np.zeros(len(spots)), np.empty((0, 4))
        for name in order:
            around = spots[name]
            price = COVERED * _covered(around.boxes, taken).sum(axis=1) / _area(around)
            costs = around.costs + price + HIT * _hits(around.lines, taken)
            chosen[name], paid[name] = (spot := int(costs.argmin())), costs.min()
            line = np.concatenate([around.lines[spot] - 1, around.lines[spot] + 1], axis=1)
            taken = np.concatenate([taken, around.boxes[[spot]], line])
        if paid.sum() < least:
            best, least = chosen, paid.sum()
        order = np.argsort(-paid, kind="stable").tolist()
    return best


def _area(spots: Spots) -> float:
    return float(np.prod(spots.boxes[0, 2:] - spots.boxes[0, :2]))


def _covered(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The area that each of boxes (S, 4) shares with each of others (T, 4): (S, T)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared: np.ndarray = np.prod(np.maximum(high - low, 0), axis=2)
    return shared


def _hits(lines: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """How often the places along each of lines (S, L, 2) lie in any of boxes (T, 4): (S,)."""
    places = lines[:, :, None, :]
    hits: np.ndarray = ((places > boxes[:, :2]) & (places < boxes[:, 2:])).all(axis=3).sum(axis=(1, 2))
    return hits
