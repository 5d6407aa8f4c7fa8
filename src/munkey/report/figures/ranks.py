"""Critical difference diagrams (Demšar 2006)."""

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from munkey.report.figures import theme
from munkey.report.tables.ranks import (
    LEVEL,
    compare_methods,
    describe_blocks,
    describe_shortage,
    rank_by_seed,
)


@matplotlib.rc_context(theme.THEME)
def rank_diagram(ranks: pd.DataFrame, emphasized: str) -> Figure:
    """Draw each method at its mean rank, with bars across methods that do not differ significantly.

    The line above the axis shows the critical difference. If there are too few seeds or methods,
    the figure says so. ranks: from `rank_by_title`.
    """
    from scikit_posthocs import critical_difference_diagram

    blocks = rank_by_seed(ranks)
    shortage = describe_shortage(blocks)
    if shortage:
        return theme.text_figure(shortage)
    test = compare_methods(blocks)
    methods = len(test.mean)
    figure = theme.make_canvas(theme.DOUBLE, 1.4 + 0.15 * methods)
    axes = figure.subplots()
    artists = critical_difference_diagram(
        test.mean,
        test.pairs,
        alpha=LEVEL,
        ax=axes,
        label_fmt_left="{label}  {rank:.2f}\N{NO-BREAK SPACE}",
        label_fmt_right="\N{NO-BREAK SPACE}{rank:.2f}  {label}",
        color_palette=dict.fromkeys(test.mean.index, theme.BLACK) | {emphasized: theme.VERMILLION},
        crossbar_props={"color": theme.GRAY, "linewidth": 2.5},
        elbow_props={"linewidth": 0.8},
        text_h_margin=0.15,
    )
    # scikit-posthocs draws a crossbar through a Python set of ranks, whose order varies between
    # runs. Sort the ranks so that the figure always has the same bytes.
    for (crossbar,) in artists["crossbars"]:
        crossbar.set_xdata(sorted(crossbar.get_xdata()))
    axes.spines["top"].set(visible=True, bounds=(1, methods))
    axes.set_xticks(range(1, methods + 1))
    axes.plot(
        [1, 1 + test.difference],
        [2, 2],
        color=theme.BLACK,
        linewidth=1.2,
        marker="|",
        markersize=7,
    )
    axes.update_datalim([(methods, 2)])  # the axis always extends to the last rank
    axes.autoscale_view()
    label = (
        f"  critical difference {test.difference:.2f}, n = {describe_blocks(ranks)}\n"
        f"  {test.friedman}"
    )
    if test.p >= LEVEL:
        label += ": no significant differences"
    axes.text(1 + test.difference, 2, label, va="center")
    return theme.freeze(figure)
