"""The figure of the selection of p_image and p_token: a panel for each metric, a row for each pair.

The paper has a radar chart instead.
"""

from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from munkey.report.figures import theme

METRICS = {  # labels of the panels; those in percent have the same scale
    "gap": "validation gap\n[points]",
    "P_s": "$P_s$\n(ξ dotted)",
    "TA": "TA [%]",
    "RA": "RA [%]",
    "FA": "FA [%]",
    "MIA": "MIA [%]",
}
HIGHEST = 100.0  # percent
PERCENT = ("TA", "RA", "FA", "MIA")
Look = dict[str, Any]  # keyword arguments of matplotlib for a point
CHOSEN: Look = {"color": theme.VERMILLION, "marker": "*", "markersize": 9}
NEVER_DROPPED: Look = {"color": theme.GRAY, "marker": "X", "markersize": 5}
OTHER: Look = {"color": theme.BLUE, "marker": "o", "markersize": 5}


@matplotlib.rc_context(theme.THEME)
def selection_plot(frame: pd.DataFrame, threshold: float) -> Figure:
    """Draw a row per pair (p_image, p_token) of one data set.

    The chosen pair, if any, is a star with a bold label, and (0, 0) is a gray cross. The four panels
    in percent have the same scale. Diverged pairs are left out.

    Parameters
    ----------
    frame
        A table with the columns dataset, p_image, p_token, TA, RA, FA, MIA (percent), P_s, gap
        (validation utility gap, points) and chosen.
    threshold
        The paper's ξ, drawn as a dotted line.

    Raises
    ------
    ValueError
        If the frame has no rows.
    """
    if len(frame) and frame["gap"].isna().all():
        return theme.text_figure(f"{frame['dataset'].iloc[0]}: every pair diverged.")
    frame = frame.dropna(subset=["gap", "P_s"])
    frame = theme.check_frame(frame, list(METRICS), "pairs")
    frame = frame.sort_values(["p_image", "p_token"], ignore_index=True)
    never_dropped = (frame["p_image"] == 0) & (frame["p_token"] == 0)
    looks = []
    for is_chosen, is_never_dropped in zip(frame["chosen"], never_dropped, strict=True):
        if is_chosen:
            looks.append(CHOSEN)
        elif is_never_dropped:
            looks.append(NEVER_DROPPED)
        else:
            looks.append(OTHER)
    figure = theme.canvas(theme.DOUBLE, 1.1 + 0.2 * len(frame))
    panels = figure.subplots(1, len(METRICS), sharey=True)
    percent = frame[list(PERCENT)]
    span = 1.3 * float((percent.max() - percent.min()).max())
    if span == 0:  # all pairs are equal
        span = 1.0
    for axes, (name, title) in zip(panels, METRICS.items(), strict=True):
        for place, (value, look) in enumerate(zip(frame[name], looks, strict=True)):
            axes.plot(value, place, linestyle="none", **look)
        axes.margins(x=0.2)
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.grid(color=theme.BAND, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(title, parse_math=True)
        if name in PERCENT:
            middle = (frame[name].min() + frame[name].max()) / 2
            # No percentage exceeds 100, but half of a mark at 100 needs room above it.
            high = min(middle + span / 2, HIGHEST + 0.05 * span)
            axes.set_xlim(high - span, high)
            ticks = MaxNLocator(3).tick_values(high - span, high)
            is_inside = (ticks >= high - span) & (ticks <= min(high, HIGHEST))
            axes.set_xticks(ticks[is_inside])
    # Pairs to the right of the threshold are not chosen. P_s rarely exceeds 1, so a threshold above
    # 1 is not shown.
    panels[1].set_xlim(0, 1.15 * max(frame["P_s"].max(), min(threshold, 1.0)))
    panels[1].axvline(threshold, color=theme.BLACK, linestyle=":", linewidth=1)
    names = [f"{pair['p_image']:g}, {pair['p_token']:g}" for _, pair in frame.iterrows()]
    panels[0].set_yticks(range(len(frame)), names)
    panels[0].set_ylim(len(frame) - 0.5, -0.5)
    panels[0].set_ylabel("$p_{image}$, $p_{token}$", parse_math=True)
    for label, is_chosen in zip(panels[0].get_yticklabels(), frame["chosen"], strict=True):
        if is_chosen:
            label.set_fontweight("bold")
    title = str(frame["dataset"].iloc[0])
    if not frame["chosen"].any():
        title += ": no pair passes"
    figure.suptitle(title, fontsize=8)
    return theme.freeze(figure)
