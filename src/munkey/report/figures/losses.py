"""Training loss over the epochs: originals beside the oracles that were retrained without a forget set."""

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from munkey.report.figures.theme import CLASS_COLORS, DASHES, DOUBLE, THEME, canvas, checked, freeze, over_seeds

COLUMNS = ["dataset", "seed", "subset", "system", "epoch", "loss"]


@matplotlib.rc_context(THEME)
def draw(losses: pd.DataFrame) -> Figure:
    """A row for each data set, a panel for each family, a line for each subset.

    Means over seeds, with bands of one standard deviation, down to 0 at most.

    losses: as `munkey.report.summary.training_losses` makes them. Raises ValueError for no rows, missing columns or
    NaN.
    """
    frame = checked(losses, COLUMNS, ["epoch", "loss"], "losses")
    frame["family"] = frame["system"].str.rpartition("-")[2].str.upper()
    datasets, families = sorted(frame["dataset"].unique()), list(dict.fromkeys(frame["family"]))
    figure = canvas(DOUBLE, 0.6 + 2.2 * len(datasets))
    grid = figure.subplots(len(datasets), len(families), squeeze=False, sharex="row", sharey="row")
    for row, dataset in zip(grid, datasets, strict=True):
        for axes, family in zip(row, families, strict=True):
            part = frame[(frame["dataset"] == dataset) & (frame["family"] == family)]
            _panel(axes, part)
            axes.set_title(f"{dataset}, original and retrained ({family})", loc="left")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    figure.supylabel("training loss", fontsize=8)
    figure.supxlabel(f"epoch; {over_seeds(frame.groupby('system')['seed'].nunique())}", fontsize=8)
    return freeze(figure)


def _panel(axes: Axes, part: pd.DataFrame) -> None:
    for number, (subset, lines) in enumerate(part.groupby("subset", sort=True)):
        values = lines.groupby("epoch")["loss"].agg(["mean", "std"]).fillna({"std": 0.0})
        color, dashes = CLASS_COLORS[number % len(CLASS_COLORS)], DASHES[number % len(DASHES)]
        axes.plot(values.index, values["mean"], color=color, linestyle=dashes, label=_words(str(subset)))
        low, high = (values["mean"] - values["std"]).clip(lower=0), values["mean"] + values["std"]
        axes.fill_between(values.index, low, high, color=color, alpha=0.15, linewidth=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _words(subset: str) -> str:
    return "on all samples" if subset == "full" else f"without {100 * float(subset.removeprefix('rate')):g} %"
