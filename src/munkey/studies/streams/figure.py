"""The figure of streams: test accuracy, seconds, and residual share over a stream of requests."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from munkey.report.figures import theme
from munkey.report.figures.theme import check_frame
from munkey.report.tables.summary import RESIDUE

# The axis of shares [%] is linear between -SHARE_LINEAR and SHARE_LINEAR.
SHARE_LINEAR = 20.0
SHARE_TICKS = (-10_000, -1000, -100, -20, 20, 100, 1000, 10_000)


@matplotlib.rc_context(theme.THEME)
def streams_plot(curves: pd.DataFrame, shares: pd.DataFrame) -> Figure:
    """Draw test accuracy, total seconds, and residual share over a stream of requests.

    Each quantity has a panel, in which each method has a line with its name at the end. Systems that
    are retrained only at some requests have marks but no line, and no seconds. The residual share
    covers all samples that were forgotten so far. Its axis is linear up to 20% on either side of 0
    and logarithmic beyond. Shares that could not be measured are left out. If all methods diverged,
    the figure says so.

    Raises ValueError if an accuracy or a time is NaN.

    Parameters
    ----------
    curves, shares
        The results of `munkey.studies.streams.tables.compute_findings`.
    """
    if shares.empty:
        return theme.text_figure("No method has predictions for every request: models diverged.")
    curves = check_frame(curves, ["TA", "seconds"], "streams")
    shares = shares[np.isfinite(shares["share"])]
    methods = list(dict.fromkeys(curves.loc[curves["done"] == 0, "title"]))
    figure = theme.make_canvas(theme.DOUBLE, 1.0 + 3 * max(1.9, 0.16 * len(methods)))
    panels = figure.subplots(3, 1, sharex=True)
    accuracy, seconds, residue = panels
    for number, title in enumerate(methods):
        look = {**theme.line_style(number), "markersize": 3}
        curve = curves[curves["title"] == title]
        means = curve.groupby("done")["TA"].mean()
        accuracy.plot(means.index, means, **look)
        request_seconds = curve[curve["done"] > 0].groupby("done")["seconds"].mean()
        seconds.plot(request_seconds.index, request_seconds.cumsum(), **look)
        # Request 0 represents the samples of all requests so far.
        overall = shares[(shares["title"] == title) & (shares["request"] == 0)]
        residue.plot(overall["done"], overall["share"], **look)
    retrained = [title for title in dict.fromkeys(curves["title"]) if title not in methods]
    for number, title in enumerate(retrained):
        means = curves[curves["title"] == title].groupby("done")["TA"].mean()
        hollow = {
            "linestyle": "none",
            "color": theme.BLACK,
            "markerfacecolor": "none",
            "markersize": 5,
        }
        accuracy.plot(
            means.index, means, marker=theme.CLASS_MARKERS[number], label=str(title), **hollow
        )
    seconds.set_yscale("log")
    for label in seconds.get_yticklabels(which="both"):  # labels such as $10^2$ are formulas
        label.set_parse_math(True)
    residue.set_yscale("symlog", linthresh=SHARE_LINEAR)
    low, high = residue.get_ylim()
    ticks = [tick for tick in SHARE_TICKS if low <= tick <= high]
    residue.yaxis.set_major_locator(FixedLocator([0, *ticks]))
    residue.yaxis.set_major_formatter(ScalarFormatter())
    residue.yaxis.set_minor_locator(NullLocator())
    for value in (0, 100):
        residue.axhline(value, color=theme.BLACK, linewidth=0.8, zorder=1)
    accuracy.set_ylabel("test accuracy [%]")
    seconds.set_ylabel("seconds so far")
    residue.set_ylabel(RESIDUE)
    for axes in panels:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        theme.name_ends(axes, methods)
    residue.set_xlabel("requests")
    if retrained:
        figure.legend(loc="outside lower center", ncols=4)
    # The layout may add labels for further powers of 10, which are also formulas.
    with matplotlib.rc_context({"text.parse_math": True}):
        return theme.freeze(figure)
