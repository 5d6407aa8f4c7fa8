"""Training loss over the epochs: originals beside the oracles that were retrained without a forget set."""

from itertools import cycle
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from munkey.report.figures import theme


@matplotlib.rc_context(theme.THEME)
def loss_curves(losses: pd.DataFrame) -> Figure:
    """A row for each data set, a panel for each family, a line for each subset.

    Means over seeds, with bands of one standard deviation, down to 0 at most.

    losses: of `munkey.report.tables.summary.training_losses`. Raises ValueError for no rows or NaN.
    """
    frame = theme.checked(losses, ["loss"], "losses")
    frame["family"] = frame["system"].str.rpartition("-")[2].str.upper()
    datasets, families = sorted(frame["dataset"].unique()), list(dict.fromkeys(frame["family"]))
    looks: dict[str, dict[str, Any]] = {}  # of subsets
    for subset, color, dashes in zip(sorted(frame["subset"].unique()), cycle(theme.CLASS_COLORS), cycle(theme.DASHES)):
        left_out = "on all samples" if subset == "full" else f"without {100 * float(subset.removeprefix('rate')):g} %"
        looks[subset] = {"label": left_out, "color": color, "linestyle": dashes}
    figure = theme.canvas(theme.DOUBLE, 0.6 + 2.2 * len(datasets))
    grid = figure.subplots(len(datasets), len(families), squeeze=False, sharex="row", sharey="row")
    for row, dataset in zip(grid, datasets, strict=True):
        for axes, family in zip(row, families, strict=True):
            part = frame[(frame["dataset"] == dataset) & (frame["family"] == family)]
            for subset, lines in part.groupby("subset", sort=True):
                theme.mean_curve(axes, lines.groupby("epoch")["loss"], **looks[str(subset)])
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_title(f"{dataset}, original and retrained ({family})", loc="left")
    handles = [Line2D([], [], **look) for look in looks.values()]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    figure.supylabel("training loss", fontsize=8)
    seed_counts = frame.groupby(["dataset", "system"])["seed"].nunique()
    figure.supxlabel(f"epoch; {theme.over_seeds(seed_counts)}", fontsize=8)
    return theme.freeze(figure)
