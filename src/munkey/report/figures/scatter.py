"""Named points over the seconds that forgetting takes, which the figures of forgetting have in common."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib.transforms import Bbox

from munkey.report.figures.labels import Named, Obstacles, label_points


class Point(NamedTuple):
    """A named point in data coordinates, the ends of its bar, and how it looks. size: of its marker, in points."""

    name: str
    x: float
    y: float
    low: float
    high: float
    color: str
    marker: str
    size: float


def draw(axes: Axes, points: Sequence[Point]) -> None:
    """Points with their bars, on a logarithmic axis of seconds."""
    for point in points:
        ends = [[point.y - point.low], [point.high - point.y]]
        axes.errorbar(point.x, point.y, ends, color=point.color, marker=point.marker, markersize=point.size,
                      ecolor=(point.color, 0.5), elinewidth=0.9, capsize=2, zorder=3)  # fmt: skip
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def name(axes: Axes, points: Sequence[Point], emphasized: str, levels: Sequence[float] = ()) -> None:
    """Each point's name beside it, once the layout is final (theme.freeze). levels: of lines across the axes."""
    heights = [float(axes.transData.transform((points[0].x, level))[1]) for level in levels]
    marks, bars = [], [Bbox.from_extents(axes.bbox.x0, at - 3, axes.bbox.x1, at + 3) for at in heights]
    for point in points:
        ends = axes.transData.transform([(point.x, value) for value in (point.low, point.y, point.high)])
        (across, low), (_, middle), (_, high) = ends
        bars.append(Bbox.from_extents(across - 3, low, across + 3, high))
        marks.append(Bbox.from_extents(across - 7, middle - 7, across + 7, middle + 7))
    label_points(axes, [Named(*point[:3]) for point in points], Obstacles(marks, bars), emphasized)
