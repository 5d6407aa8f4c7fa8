"""Training loss over the epochs: originals beside the oracles that were retrained without a forget set."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any, TypedDict

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from munkey.report.figures.theme import (
    CLASS_COLORS,
    DASHES,
    DOUBLE,
    THEME,
    canvas,
    checked,
    freeze,
    mean_curve,
    over_seeds,
)

COLUMNS = ["dataset", "seed", "subset", "system", "epoch", "loss"]


class Style(TypedDict):
    label: str
    color: str
    linestyle: Any


@matplotlib.rc_context(THEME)
def loss_curves(losses: pd.DataFrame) -> Figure:
    """A row for each data set, a panel for each family, a line for each subset.

    Means over seeds, with bands of one standard deviation, down to 0 at most.

    losses: of `munkey.report.tables.summary.training_losses`. Raises ValueError for no rows, missing columns or
    NaN.
    """
    frame = checked(losses, COLUMNS, ["epoch", "loss"], "losses")
    frame["family"] = frame["system"].str.rpartition("-")[2].str.upper()
    datasets, families = sorted(frame["dataset"].unique()), list(dict.fromkeys(frame["family"]))
    subsets = sorted(frame["subset"].unique())
    looks = zip(subsets, cycle(CLASS_COLORS), cycle(DASHES))
    styles = {subset: Style(label=_words(subset), color=color, linestyle=dashes) for subset, color, dashes in looks}
    figure = canvas(DOUBLE, 0.6 + 2.2 * len(datasets))
    grid = figure.subplots(len(datasets), len(families), squeeze=False, sharex="row", sharey="row")
    for row, dataset in zip(grid, datasets, strict=True):
        for axes, family in zip(row, families, strict=True):
            part = frame[(frame["dataset"] == dataset) & (frame["family"] == family)]
            _panel(axes, part, styles)
            axes.set_title(f"{dataset}, original and retrained ({family})", loc="left")
    lines = [Line2D([], [], **style) for style in styles.values()]
    figure.legend(handles=lines, loc="outside upper center", ncols=3)
    figure.supylabel("training loss", fontsize=8)
    figure.supxlabel(f"epoch; {over_seeds(frame.groupby('system')['seed'].nunique())}", fontsize=8)
    return freeze(figure)


def _panel(axes: Axes, part: pd.DataFrame, styles: Mapping[str, Style]) -> None:
    for subset, lines in part.groupby("subset", sort=True):
        mean_curve(axes, lines.groupby("epoch")["loss"], **styles[str(subset)])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _words(subset: str) -> str:
    return "on all samples" if subset == "full" else f"without {100 * float(subset.removeprefix('rate')):g} %"
