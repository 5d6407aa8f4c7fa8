"""Does it come back? Forget accuracy while a system is trained on the retain set alone, beside its oracle's."""

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from munkey.report.figures.theme import (
    BLACK,
    BLUE,
    DASHES,
    DOUBLE,
    GRAY,
    THEME,
    canvas,
    checked,
    freeze,
    mean_curve,
    over_seeds,
)

COLUMNS = ["family", "name", "title", "role", "seed", "step", "FA"]
ACROSS = 4  # panels
STYLES = {  # of a role: its color, the number of its dashes in the theme, and what it means
    "method": (BLUE, 0, "after unlearning"),
    "oracle": (BLACK, 1, "oracle"),
    "nothing": (GRAY, 2, "nothing done"),
}


@matplotlib.rc_context(THEME)
def relearning_plot(curves: pd.DataFrame) -> Figure:
    """A panel for each method, in it the oracle and the original of its family. Means over seeds, bands of one sd.

    curves: as `munkey.report.tables.relearning.curves_of` makes them. Steps are on a scale that is linear up to 1, then
    logarithmic. Raises ValueError for no rows, missing columns or NaN.
    """
    frame = checked(curves, COLUMNS, ["step", "FA"], "relearned")
    methods = frame[frame["role"] == "method"].groupby(["family", "name"], sort=False)
    rows = -(-len(methods) // ACROSS)
    figure = canvas(DOUBLE, 0.7 + 1.35 * rows)
    grid = figure.subplots(rows, ACROSS, sharex=True, sharey=True, squeeze=False)
    for place, ((family, _), own) in enumerate(methods):
        axes = grid.flat[place]
        others = frame[(frame["family"] == family) & (frame["role"] != "method")]
        _panel(axes, pd.concat([others, own]), str(own["title"].iloc[0]))
        axes.tick_params(labelbottom=place + ACROSS >= len(methods))  # there is no panel below
    for axes in grid.flat[len(methods) :]:
        axes.set_visible(False)
    _scale(grid[0, 0], frame)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(STYLES))
    figure.supylabel("forget accuracy [%]", fontsize=8)
    seeds = over_seeds(frame.groupby("name")["seed"].nunique())
    figure.supxlabel(f"steps on the retain set alone; {seeds}", fontsize=8)
    return freeze(figure)


def _panel(axes: Axes, part: pd.DataFrame, title: str) -> None:
    for role, (color, dashes, words) in STYLES.items():
        accuracies = part[part["role"] == role].groupby("step")["FA"]
        mean_curve(axes, accuracies, color, top=100, linestyle=DASHES[dashes], label=words)
    axes.set_title(title)


def _scale(axes: Axes, frame: pd.DataFrame) -> None:
    axes.set_xscale("symlog", linthresh=1)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_xlim(0, frame["step"].max())
    axes.set_ylim(top=min(axes.get_ylim()[1], 100.5))
