"""The figure of tokens and features in the plane (the paper's UMAP figure)."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from munkey.report.figures import theme

MAX_LEGEND_CLASSES = 20  # with more classes, a color bar replaces the legend
MAX_VECTOR_POINTS = 500  # more points are rasterized, or the SVG would have many megabytes


def umap_2d(points: np.ndarray, seed: int) -> np.ndarray:
    """Project points (N, d) to (N, 2) float32 by UMAP.

    On one machine, the same seed gives the same result. Raises ValueError for fewer than 5 points,
    since UMAP needs neighbors, or for values that are not finite.
    """
    if points.ndim != 2 or len(points) < 5 or not np.isfinite(points).all():
        raise ValueError(f"UMAP needs at least 5 finite points as (N, d), got shape {points.shape}")
    from umap import UMAP  # compiles for many seconds at the first import

    neighbors = min(15, len(points) - 1)  # 15 is UMAP's default
    reducer = UMAP(n_neighbors=neighbors, random_state=seed, n_jobs=1)
    return np.asarray(reducer.fit_transform(points), dtype=np.float32)


@matplotlib.rc_context(theme.THEME)
def projection_plot(
    panels: Mapping[str, Sequence[np.ndarray]], labels: np.ndarray, classes: Sequence[str]
) -> Figure:
    """Draw exemplar tokens (top) and [CLS] features (bottom) by class, a column per moment of training.

    Each panel is a separate projection, so positions can be compared within a panel, but not between
    panels. Up to 20 classes have a color and a marker each; more classes have a color bar.

    Parameters
    ----------
    panels
        Projected tokens and features, each (N, 2), by the title of the moment.
    labels
        Indices (N,) into `classes`.
    """
    has_legend = len(classes) <= MAX_LEGEND_CLASSES
    height = 4.6 if has_legend else 4.2
    figure = theme.canvas(min(theme.DOUBLE, 0.6 + 2.1 * max(len(panels), 2)), height)
    grid = figure.subplots(2, len(panels), squeeze=False)
    for column, (moment, planes) in zip(grid.T, panels.items(), strict=True):
        for axes, points in zip(column, planes, strict=True):
            _scatter(axes, points, labels, len(classes))
        column[0].set_title(moment)
        column[1].set_xlabel("UMAP 1 (no unit)")
    grid[0, 0].set_ylabel("exemplar tokens\nUMAP 2 (no unit)")
    grid[1, 0].set_ylabel("[CLS] features\nUMAP 2 (no unit)")
    title = f"class (N = {len(labels)} samples, one seed)"
    if has_legend:
        styles = [theme.point_style(number) for number in range(len(classes))]
        handles = [Line2D([], [], linestyle="", markersize=4.5, **style) for style in styles]
        # An inch holds about 16 characters; the marker of a class is as wide as 5.
        fitting = int(16 * figure.get_figwidth() / (max(map(len, classes)) + 5))
        look: dict[str, Any] = {
            "loc": "outside lower center",
            "handletextpad": 0.1,
            "columnspacing": 1.2,
        }
        figure.legend(
            handles, classes, title=title, ncols=max(1, min(len(classes), fitting)), **look
        )
    else:
        mapped = matplotlib.cm.ScalarMappable(
            matplotlib.colors.Normalize(0, len(classes) - 1), "viridis"
        )
        figure.colorbar(mapped, ax=grid, label=f"index of the {title}", aspect=40)
    return theme.freeze(figure)


def _scatter(axes: Axes, points: np.ndarray, labels: np.ndarray, classes: int) -> None:
    """Draw points (N, 2) in the colors of their classes; the more points, the smaller they are."""
    size = float(np.clip(15000 / len(points), 2, 16))
    raster = len(points) > MAX_VECTOR_POINTS
    x, y = points.T
    if classes > MAX_LEGEND_CLASSES:
        axes.scatter(
            x,
            y,
            s=size,
            c=labels,
            cmap="viridis",
            vmin=0,
            vmax=classes - 1,
            lw=0,
            rasterized=raster,
        )
    else:
        for label in np.unique(labels):
            in_class = labels == label
            look = theme.point_style(int(label)) | {"s": size, "lw": 0, "alpha": 0.8}
            axes.scatter(x[in_class], y[in_class], rasterized=raster, **look)
    axes.set(xticks=[], yticks=[])
