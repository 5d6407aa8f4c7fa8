"""The figure of an audit's grid: how much the weights remember, depending on how they are trained."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from munkey.core.diverged import DIVERGED
from munkey.core.knobs import format_knob_value, shorten_knobs
from munkey.report.figures import theme
from munkey.report.tables.summary import RESIDUE
from munkey.studies.audits.figure import CHANCE_BAND, CROWDED, compute_limits
from munkey.studies.audits.tables import list_knobs, select_deployed_rows

COLUMNS_FONT = "DejaVu Sans Mono"
PANELS = {  # columns shown next to the shares: title and color
    "nothing": ("put there\n[scores]", theme.VERMILLION),
    "P_s": ("$P_s$\nbefore", theme.GREEN),
    "val_after": ("validation\nafter [%]", theme.BLACK),
}


@matplotlib.rc_context(theme.THEME)
def grid_plot(grid: pd.DataFrame) -> Figure:
    """Draw one row per setting, with residual shares and the three quantities of PANELS.

    Filled dots are the shares as deployed, with their 95% intervals. Crosses are the shares of the
    image pathway alone. The gray band contains 95% of the shares that occur by chance if nothing
    remains. Diverged settings are left out.

    Raises ValueError if there are no rows.

    Parameters
    ----------
    grid
        The rows of `munkey.audits.grid` for one data set.
    """
    if DIVERGED in grid:
        grid = grid[grid[DIVERGED].isna()]
        if grid.empty:
            return theme.text_figure("Every setting diverged.")
    theme.check_frame(grid, list(PANELS), "kept")
    rows = select_deployed_rows(grid)
    image_rows = grid[grid["path"] == "image"].set_index("setting")
    image = image_rows["share"].reindex(rows["setting"]).to_numpy()
    figure = theme.make_canvas(theme.DOUBLE, 1.6 + 0.17 * len(rows))
    share_axes, *panel_axes = figure.subplots(
        1, 1 + len(PANELS), sharey=True, width_ratios=[3.2] + [1] * len(PANELS)
    )
    _draw_shares(share_axes, rows, image)
    for axes, column in zip(panel_axes, PANELS, strict=True):
        title, color = PANELS[column]
        _draw_dots(axes, rows[column].to_numpy(dtype=float), title, color)
    _label_settings(share_axes, rows[list_knobs(grid)])
    return theme.freeze(figure)


def _label_settings(axes: Axes, knobs: pd.DataFrame) -> None:
    """Label each setting with the values of its knobs, in columns below the knobs' names."""
    names = shorten_knobs(map(str, knobs)).values()
    labels = []
    for values in knobs.values:
        cells = []
        for name, value in zip(names, values, strict=True):
            cells.append(format_knob_value(value).rjust(len(name)))
        labels.append("  ".join(cells))
    axes.set_yticks(range(len(labels)), labels, family=COLUMNS_FONT)
    axes.set(ylim=(len(labels) - 0.4, -0.8))
    axes.annotate(
        "  ".join(names),
        (0, -0.9),
        xycoords=("axes fraction", "data"),
        xytext=(-3.5, 0),
        textcoords="offset points",
        ha="right",
        va="bottom",
        family=COLUMNS_FONT,
        annotation_clip=False,
    )


def _draw_shares(axes: Axes, rows: pd.DataFrame, image: np.ndarray) -> None:
    """Draw the chance band, the intervals, and the shares as deployed and of the image pathway."""
    places = np.arange(len(rows))
    ends = compute_limits(rows)
    low = rows["share_low"].clip(*ends)
    high = rows["share_high"].clip(*ends)
    band = 1.96 * rows["chance"]  # half-width of the central 95% of a normal distribution
    axes.barh(
        places, 2 * band, left=-band, height=0.8, color=theme.BAND, label=CHANCE_BAND, zorder=0
    )
    axes.hlines(places, low, high, color=theme.BLUE, linewidth=1.2, zorder=2)
    arrows = (  # mark intervals that extend beyond the axis
        (rows["share_low"] < ends[0], ends[0], "<"),
        (rows["share_high"] > ends[1], ends[1], ">"),
    )
    for beyond, edge, marker in arrows:
        axes.plot(
            np.full(beyond.sum(), edge),
            places[beyond],
            marker,
            color=theme.BLUE,
            clip_on=False,
            zorder=3,
        )
    axes.plot(
        rows["share"].clip(*ends),
        places,
        "o",
        color=theme.BLUE,
        label="as deployed, 95%",
        zorder=3,
    )
    axes.plot(image, places, "x", color=theme.GRAY, label="image alone", zorder=2)
    original_side = "left" if np.ptp(ends) > CROWDED else "center"
    for value, label, side in ((0, "never seen", "left"), (100, "original", original_side)):
        axes.axvline(value, color=theme.BLACK, linewidth=0.8, zorder=1)
        axes.annotate(label, (value, -0.9), ha=side, va="bottom", annotation_clip=False)
    axes.set(xlim=ends, xlabel=RESIDUE)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.figure.legend(loc="outside lower center", ncols=3)


def _draw_dots(axes: Axes, values: np.ndarray, title: str, color: str) -> None:
    axes.plot(values, np.arange(len(values)), "D", color=color, markersize=3.5)
    # If all values are nearly equal or 0, the axis still needs some width.
    spread = max(float(np.ptp(values)), 0.02 * float(np.abs(values).max()), 1e-3)
    axes.set(xlim=(values.min() - 0.15 * spread, values.max() + 0.15 * spread))
    axes.set_xlabel(title, parse_math=True)
    axes.xaxis.set_major_locator(MaxNLocator(2))
    axes.grid(axis="x", color=theme.BAND, linewidth=0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
