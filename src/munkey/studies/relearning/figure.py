"""The figure of relearning: forget accuracy during further training on the retain set."""

import math

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from munkey.core.diverged import DIVERGED
from munkey.report.figures import theme

COLUMNS = 4  # of panels
STYLES = {  # color, dashes and label of each role
    "method": (theme.BLUE, theme.DASHES[0], "after unlearning"),
    "oracle": (theme.BLACK, theme.DASHES[1], "oracle"),
    "nothing": (theme.GRAY, theme.DASHES[2], "original"),
}


@matplotlib.rc_context(theme.THEME)
def relearning_plot(curves: pd.DataFrame) -> Figure:
    """Draw one panel per method, together with its family's oracle and original.

    Lines are means over seeds; bands are ± one standard deviation. The scale of steps is linear up
    to 1 and logarithmic beyond. Diverged curves are left out.

    Raises ValueError if there are no rows, or if a value is NaN.

    Parameters
    ----------
    curves
        The result of `munkey.studies.relearning.tables.read_curves`.
    """
    if DIVERGED in curves:
        curves = curves[curves[DIVERGED].isna()]
        if not (curves["role"] == "method").any():
            return theme.text_figure("No method has a curve: models diverged.")
    frame = theme.check_frame(curves, ["FA"], "relearned")
    methods = frame[frame["role"] == "method"].groupby(["family", "name"], sort=False)
    rows = math.ceil(len(methods) / COLUMNS)
    figure = theme.make_canvas(theme.DOUBLE, 0.7 + 1.35 * rows)
    grid = figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
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
        axes.tick_params(labelbottom=place + COLUMNS >= len(methods))  # if no panel is below
    for axes in grid.flat[len(methods) :]:
        axes.set_visible(False)
    first = grid[0, 0]  # all panels share the scales of the first one
    first.set_xscale("symlog", linthresh=1)
    first.xaxis.set_major_formatter(ScalarFormatter())
    first.yaxis.set_major_formatter("{x:g}")  # 100, not 100.0, which would reach the label
    first.set_xlim(0, frame["step"].max())
    first.set_ylim(top=min(first.get_ylim()[1], 100.5))
    figure.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=len(STYLES))
    figure.supylabel("forget accuracy [%]", fontsize=8)
    seeds = theme.describe_seeds(frame.groupby("name")["seed"].nunique())
    figure.supxlabel(f"steps on the retain set alone; {seeds}", fontsize=8)
    return theme.freeze(figure)
