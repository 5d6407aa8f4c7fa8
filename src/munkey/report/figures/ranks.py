"""Critical differences (Demšar 2006): methods at their mean ranks, a bar across those that are not told apart."""

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from munkey.report.figures import theme
from munkey.report.tables.ranks import (
    LEVEL,
    compare_ranks,
    describe_blocks,
    describe_shortage,
    rank_by_seed,
)


@matplotlib.rc_context(theme.THEME)
def rank_diagram(ranks: pd.DataFrame, emphasized: str) -> Figure:
    """Draw each method at its mean rank, with a bar across those that are not told apart.

    A line above the axis is as long as the critical difference: mean ranks that are further apart
    differ. Where there are too few seeds or methods, the figure says so.

    Parameters
    ----------
    ranks
        The result of `munkey.report.tables.ranks.rank_methods`.
    emphasized
        Title of the method that stands out.
    """
    from scikit_posthocs import critical_difference_diagram

    missing = describe_shortage(rank_by_seed(ranks))
    if missing:
        return theme.text_figure(missing)
    test = compare_ranks(rank_by_seed(ranks))
    methods = len(test.mean)
    figure = theme.canvas(theme.DOUBLE, 1.4 + 0.15 * methods)
    axes = figure.subplots()
    drawn = critical_difference_diagram(
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
    # scikit-posthocs draws a crossbar through the ranks of a Python set, whose order changes from
    # run to run; sorted, the figure has the same bytes each time.
    for (crossbar,) in drawn["crossbars"]:
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
    axes.update_datalim([(methods, 2)])  # all ranks there can be, also where no method has them
    axes.autoscale_view()
    words = f"  critical difference {test.difference:.2f}, n = {describe_blocks(ranks)}\n  {test.friedman}"
    if test.p >= LEVEL:
        words += ": none are told apart"
    axes.text(1 + test.difference, 2, words, va="center")
    return theme.freeze(figure)
