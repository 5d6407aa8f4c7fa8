"""The figure of ablations: curves over the number of neighbors K."""

from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from munkey.core.files import read_table
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD
from munkey.report.figures.theme import DASHES, check_frame


@matplotlib.rc_context(theme.THEME)
def neighbors_plot(frame: pd.DataFrame) -> Figure:
    """Draw test accuracy and Avg Gap over the number of neighbors K, with one line per data set.

    This is the paper's figure ablation-knn. Error bars are ± one standard deviation and end at 0,
    the smallest possible value. A K for which models diverged is left out.

    Raises ValueError if the frame is empty.

    Parameters
    ----------
    frame
        The columns are dataset, k, TA_mean, TA_sd (percent), gap_mean, gap_sd (percentage points)
        and n. A standard deviation is NaN if there is only one seed.
    """
    if len(frame) and frame["gap_mean"].isna().all():
        return theme.text_figure("No K has an Avg Gap: models diverged.")
    frame = frame.dropna(subset="gap_mean")
    frame = check_frame(frame, ["TA_mean", "gap_mean"], "neighbors")
    figure = theme.make_canvas(theme.DOUBLE, 2.6)
    panels = figure.subplots(1, 2)
    titles = {"TA": "test accuracy [%]", "gap": "Avg Gap [percentage points]"}
    for axes, (metric, title) in zip(panels, titles.items(), strict=True):
        for number, (dataset, part) in enumerate(frame.sort_values("k").groupby("dataset")):
            mean = part[f"{metric}_mean"]
            sd = part[f"{metric}_sd"].fillna(0)
            look = {**theme.point_style(number), "linestyle": DASHES[number % len(DASHES)]}
            bars = [sd.clip(upper=mean), sd]
            axes.errorbar(part["k"], mean, bars, capsize=2, label=str(dataset), **look)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(sorted(frame["k"].unique())))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(xlabel="K, neighbors per query", ylabel=title)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 4))
    figure.supxlabel(theme.describe_seeds(frame["n"]), fontsize=8)
    return theme.freeze(figure)


def neighbors_figure(table: Path, svg: Path) -> None:
    """Draw the curves of MUNKEY from the numbers of the ablations."""
    cases = read_table(table)
    part = cases[(cases["knob"] == "inference.k") & (cases["title"] == PAPERS_METHOD)]
    theme.save(neighbors_plot(part.assign(k=part["value"].astype(int))), svg.with_suffix(""))
