"""Two-dimensional projections of tokens and features (fig. UMAP)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from munkey.report.figures import theme

LEGEND_CLASSES = 20  # with more classes, a color bar replaces the legend
RASTERIZED = 500  # more points are rasterized, to keep the SVG small


def umap_2d(points: np.ndarray, seed: int) -> np.ndarray:
    """Project points (N, d) to the plane by UMAP. Returns (N, 2) float32.

    On the same machine, the same seed gives the same result. Raises ValueError if there are fewer
    than 5 points, because UMAP needs neighbors, or if a value is not finite.
    """
    if points.ndim != 2 or len(points) < 5 or not np.isfinite(points).all():
        raise ValueError(f"UMAP needs at least 5 finite points as (N, d), got shape {points.shape}")
    from umap import UMAP

    _keep_compiled_functions()
    neighbors = min(15, len(points) - 1)  # 15 is UMAP's default
    reducer = UMAP(n_neighbors=neighbors, random_state=seed, n_jobs=1)
    return np.asarray(reducer.fit_transform(points), dtype=np.float32)


def _keep_compiled_functions() -> None:
    """Let Numba keep on disk what it would compile in each process anew, for 17 seconds of 20."""
    from umap import umap_, utils

    for member in [*vars(umap_).values(), *vars(utils).values()]:
        if hasattr(member, "enable_caching"):
            with suppress(RuntimeError):  # no folder can be written to
                member.enable_caching()


@matplotlib.rc_context(theme.THEME)
def projection_plot(
    panels: Mapping[str, Sequence[np.ndarray]], labels: np.ndarray, classes: Sequence[str]
) -> Figure:
    """Draw exemplar tokens (top) and [CLS] features (bottom) by class, one column per moment.

    Each panel is a separate projection, so positions cannot be compared between panels. Up to 20
    classes each have a color and a marker; more classes share a color bar.

    Parameters
    ----------
    panels
        The projected tokens and features, each (N, 2), by the title of the moment.
    labels
        Indices (N,) into `classes`.
    """
    has_legend = len(classes) <= LEGEND_CLASSES
    height = 4.6 if has_legend else 4.2
    figure = theme.make_canvas(min(theme.DOUBLE, 0.6 + 2.1 * max(len(panels), 2)), height)
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
        _add_legend(figure, classes, title)
    else:
        colors = matplotlib.cm.ScalarMappable(
            matplotlib.colors.Normalize(0, len(classes) - 1), "viridis"
        )
        figure.colorbar(colors, ax=grid, label=f"index of the {title}", aspect=40)
    return theme.freeze(figure)


def _add_legend(figure: Figure, classes: Sequence[str], title: str) -> None:
    """Add a legend of classes, with as many columns as fit."""
    styles = [theme.point_style(number) for number in range(len(classes))]
    handles = [Line2D([], [], linestyle="", markersize=4.5, **style) for style in styles]
    # About 16 letters fit in an inch, and a marker is about as wide as 5 letters.
    fitting = int(16 * figure.get_figwidth() / (max(map(len, classes)) + 5))
    figure.legend(
        handles,
        classes,
        title=title,
        ncols=max(1, min(len(classes), fitting)),
        loc="outside lower center",
        handletextpad=0.1,
        columnspacing=1.2,
    )


def _scatter(axes: Axes, points: np.ndarray, labels: np.ndarray, classes: int) -> None:
    """Draw points (N, 2) in the colors of their classes. The more points, the smaller they are."""
    size = float(np.clip(15000 / len(points), 2, 16))
    raster = len(points) > RASTERIZED
    x, y = points.T
    if classes > LEGEND_CLASSES:
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
