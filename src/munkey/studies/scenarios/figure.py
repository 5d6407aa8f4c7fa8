"""The figure of scenarios: ToW of each method after each request."""

from collections.abc import Sequence

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from munkey.report.figures import theme
from munkey.report.figures.theme import check_frame
from munkey.report.tables.summary import Row


@matplotlib.rc_context(theme.THEME)
def scenarios_plot(summary: pd.DataFrame, rows: Sequence[Row]) -> Figure:
    """Draw one row per method, with a mark at its ToW for each request at the largest rate.

    Error bars are ± one standard deviation over seeds, cut off at 0 and 1. Diverged methods have no
    ToW and are left out.

    Raises ValueError if the summary contains no methods.

    Parameters
    ----------
    summary
        The result of `munkey.studies.scenarios.tables.summarize_scenarios`.
    """
    methods = [row.name for row in rows if row.is_ranked]
    largest_first = summary.sort_values("rate", ascending=False, kind="stable")
    at_largest_rate = largest_first.drop_duplicates(["case", "method"])
    frame = at_largest_rate[at_largest_rate["method"].isin(methods)]
    if len(frame) and frame["ToW"].isna().all():
        return theme.text_figure("No method has a ToW: models diverged.")
    frame = check_frame(frame.dropna(subset="ToW"), ["ToW"], "scenarios")
    measured = set(frame["method"])
    drawn_rows = [row for row in rows if row.name in measured]
    places = {row.name: place for place, row in enumerate(drawn_rows)}
    figure = theme.make_canvas(theme.DOUBLE, 0.9 + theme.LINE_HEIGHT * len(drawn_rows))
    axes = figure.subplots()
    axes.axvline(1, color=theme.BLACK, linewidth=0.8, zorder=1)
    cases = list(dict.fromkeys(summary["case"]))
    for number, case in enumerate(cases):
        values = frame[frame["case"] == case].set_index("method")
        values = values.assign(place=values.index.map(places)).sort_values("place")
        # The marks of the requests are stacked, within 0.3 above and below the method's row.
        height = 0.6 * (number + 0.5) / len(cases) - 0.3
        look = {**theme.point_style(number), "linestyle": "none", "label": case.partition("/")[2]}
        means = values["ToW"]
        bars = values["ToW_sd"].fillna(0)  # one seed has none
        axes.errorbar(
            means,
            values["place"] + height,
            xerr=[bars.clip(upper=means), bars.clip(upper=1 - means)],
            elinewidth=0.8,
            **look,
        )
    theme.name_lines(axes, [row.title for row in drawn_rows])
    lowest = (frame["ToW"] - frame["ToW_sd"].fillna(0)).min()
    axes.set(
        xlim=(max(lowest - 0.05, -0.02), 1.02),
        xlabel=f"ToW: 1 as retrained, 0 as far from it as can be; {theme.describe_seeds(frame['n'])}",
    )
    figure.legend(loc="outside lower center", ncols=4)
    return theme.freeze(figure)
