"""The figure of relearning: forget accuracy while systems are trained on only the retain set."""

import math

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from munkey.core.diverged import DIVERGED
from munkey.report.figures import theme

PANELS_PER_ROW = 4
STYLES = {  # color, dashes and label of each role
    "method": (theme.BLUE, theme.DASHES[0], "after unlearning"),
    "oracle": (theme.BLACK, theme.DASHES[1], "oracle"),
    "nothing": (theme.GRAY, theme.DASHES[2], "original"),
}


@matplotlib.rc_context(theme.THEME)
def relearning_plot(curves: pd.DataFrame) -> Figure:
    """Draw a panel for each method, with the oracle and the original of its family.

    Lines are means over seeds, and bands are one standard deviation. The scale of steps is linear
    up to 1, then logarithmic. Diverged curves are left out.

    Raises ValueError if there are no rows, or if FA is NaN.

    Parameters
    ----------
    curves
        The result of `munkey.report.tables.relearning.read_curves`.
    """
    if DIVERGED in curves:
        curves = curves[curves[DIVERGED].isna()]
        if not (curves["role"] == "method").any():
            return theme.text_figure("No method has a curve: models diverged.")
    frame = theme.check_frame(curves, ["FA"], "relearned")
    methods = frame[frame["role"] == "method"].groupby(["family", "name"], sort=False)
    rows = math.ceil(len(methods) / PANELS_PER_ROW)
    figure = theme.canvas(theme.DOUBLE, 0.7 + 1.35 * rows)
    grid = figure.subplots(rows, PANELS_PER_ROW, sharex=True, sharey=True, squeeze=False)
    for place, ((family, _), method) in enumerate(methods):
        axes = grid.flat[place]
        family_curves = frame[frame["family"] == family]
        for role, (color, dashes, label) in STYLES.items():
            if role == "method":
                part = method
            else:
                part = family_curves[family_curves["role"] == role]
            theme.draw_mean_curve(
                axes, part.groupby("step")["FA"], color, top=100, linestyle=dashes, label=label
            )
        axes.set_title(str(method["title"].iloc[0]))
        is_lowest = place + PANELS_PER_ROW >= len(methods)
        axes.tick_params(labelbottom=is_lowest)
    for axes in grid.flat[len(methods) :]:
        axes.set_visible(False)
    first = grid[0, 0]  # all panels share its scales
    first.set_xscale("symlog", linthresh=1)
    first.xaxis.set_major_formatter(ScalarFormatter())
    first.set_xlim(0, frame["step"].max())
    first.set_ylim(top=min(first.get_ylim()[1], 100.5))
    figure.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=len(STYLES))
    figure.supylabel("forget accuracy [%]", fontsize=8)
    seeds = theme.describe_statistic(frame.groupby("name")["seed"].nunique())
    figure.supxlabel(f"steps on the retain set; {seeds}", fontsize=8)
    return theme.freeze(figure)
