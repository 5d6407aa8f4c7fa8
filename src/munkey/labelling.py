"""Names beside points such that no name covers another name, a point or the frame."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

GAP = 2.0  # points kept free around each name
FAR = 9.0  # points: names further away than this get a line to their point
RADII = (4, 7, 11, 16, 22, 29, 37, 46, 56)  # points
ORDERS = 20  # how often the order of placing is changed


def label_points(axes: Axes, xs: Sequence[float], ys: Sequence[float], names: Sequence[str], obstacles: Sequence[Bbox],
                 bold: str = "") -> list[Annotation]:  # fmt: skip
    """Write each name beside its point (data coordinates), on the nearest spot that is free.

    obstacles: boxes in pixels to keep off, such as markers and error bars. The layout must be final (style.freeze).
    Where no order of placing is free of overlap, the one with the least is kept.
    """
    scale = axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]  # an axes in a figure has one
    labels = [_label(axes, x, y, name, name == bold) for x, y, name in zip(xs, ys, names, strict=True)]
    sizes = [(box.width / scale, box.height / scale) for box in (label.get_window_extent() for label in labels)]
    points = axes.transData.transform(np.column_stack([xs, ys])) / scale
    fixed = np.array([box.extents for box in obstacles]).reshape(-1, 4) / scale
    frame = np.array([axes.bbox.extents]) / scale
    spots = [_spots(point, *size, frame, fixed) for point, size in zip(points, sizes, strict=True)]
    chosen = _placed([boxes for _, boxes, _ in spots], [costs for _, _, costs in spots])
    for label, size, (offsets, _, _), place in zip(labels, sizes, spots, chosen, strict=True):
        label.set_position(tuple(offsets[place]))
        if (line := label.arrow_patch) is not None:
            line.set_visible(bool(np.hypot(*np.maximum(np.abs(offsets[place]) - np.divide(size, 2), 0)) > FAR))
    return labels


def _label(axes: Axes, x: float, y: float, name: str, bold: bool) -> Annotation:
    return axes.annotate(
        name, (x, y), (0, 0), textcoords="offset points", ha="center", va="center", zorder=5, annotation_clip=False,
        fontweight="bold" if bold else "normal",
        arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
    )  # fmt: skip


def _spots(
    point: np.ndarray, width: float, height: float, frame: np.ndarray, fixed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where a name could stand around a point: offsets (S, 2), boxes (S, 4), and what each costs, all in points.

    A spot costs its distance, and far more for every bit that is covered by what is `fixed` or outside the frame.
    """
    radius, angle = (grid.ravel() for grid in np.meshgrid(RADII, np.arange(0, 2 * np.pi, np.pi / 12), indexing="ij"))
    direction = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    offsets = radius[:, None] * direction + np.clip(1.5 * direction, -1, 1) * [width / 2, height / 2]
    half = np.array([width + GAP, height + GAP]) / 2
    boxes = np.concatenate([point + offsets - half, point + offsets + half], axis=1)
    area = 4 * half.prod()
    outside = area - _covered(boxes, frame)[:, 0]
    return offsets, boxes, radius + 1000 * (outside + _covered(boxes, fixed).sum(axis=1)) / area


def _placed(boxes: list[np.ndarray], costs: list[np.ndarray]) -> list[int]:
    """A spot for each name, one after the other; those that fared worst choose first next time."""
    order, best, least = list(range(len(boxes))), [0] * len(boxes), np.inf
    for _ in range(ORDERS):
        chosen, paid, taken = [0] * len(boxes), np.zeros(len(boxes)), np.empty((0, 4))
        for name in order:
            area = np.prod(boxes[name][0, 2:] - boxes[name][0, :2])
            cost = costs[name] + 1000 * _covered(boxes[name], taken).sum(axis=1) / area
            chosen[name], paid[name] = int(cost.argmin()), cost.min()
            taken = np.concatenate([taken, boxes[name][[chosen[name]]]])
        if paid.sum() < least:
            best, least = chosen, paid.sum()
        order = np.argsort(-paid, kind="stable").tolist()
    return best


def _covered(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Area that each of boxes (S, 4) shares with each of others (T, 4): (S, T)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.prod(np.maximum(high - low, 0), axis=2)
