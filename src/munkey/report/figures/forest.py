"""How much is left after deletion: residual shares with their intervals, one line for each system and path."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from munkey.report.figures import lines
from munkey.report.figures.shares import MARKS, STYLES, Limits, limits, verdict
from munkey.report.figures.theme import BAND, BLACK, DOUBLE, THEME, canvas, checked, freeze
from munkey.report.tables.audits import named, shown

COLUMNS = ["family", "title", "role", "path", "share", "share_low", "share_high", "chance", "verdict"]


@matplotlib.rc_context(THEME)
def draw(audit: pd.DataFrame) -> Figure:
    """audit: rows of `munkey.audits.family_audit`. Lines at 0 (never seen) and 100 (nothing done); behind each row,
    the band in which 95 % of shares fall by chance where nothing is left. An interval that has no end, or ends far
    beyond the axis, has an arrow there.

    Of methods alone, other paths than the deployed one are shown. Raises ValueError for no rows or missing columns.
    """
    rows = shown(checked(audit, COLUMNS, ["share"], "forest"))
    figure = canvas(DOUBLE, 0.9 + lines.HEIGHT * len(rows))
    panel(figure.subplots(), rows)
    legend(figure, rows)
    return freeze(figure)


def panel(axes: Axes, rows: pd.DataFrame, emphasized: str = "") -> None:
    """A line for each of `rows`, which are numbered from 0. emphasized: the name of one that is to stand out."""
    ends = limits(rows)
    for place, line in rows.iterrows():
        _row(axes, float(place), line, ends)  # type: ignore[arg-type]
    for value, words in MARKS.items():
        axes.axvline(value, color=BLACK, linewidth=0.8, zorder=1)
        axes.annotate(words, (value, -0.7), ha="center", va="bottom", annotation_clip=False)
    lines.name(axes, [named(line) for _, line in rows.iterrows()], emphasized)
    axes.set(xlim=ends, xlabel="residual share [%]")


def _row(axes: Axes, place: float, line: pd.Series, ends: Limits) -> None:
    color, marker, _ = STYLES[verdict(line)]
    band = 1.96 * line["chance"]
    axes.fill_betweenx([place - 0.4, place + 0.4], -band, band, color=BAND, linewidth=0, zorder=0)
    low, high = np.clip([line["share_low"], line["share_high"]], *ends)
    axes.plot([low, high], [place, place], color=color, linewidth=1.2, zorder=2)
    for beyond, edge, arrow in ((line["share_low"] < low, low, "<"), (line["share_high"] > high, high, ">")):
        if beyond:
            axes.plot(edge, place, marker=arrow, color=color, markersize=4, clip_on=False, zorder=3)
    axes.plot(np.clip(line["share"], *ends), place, marker=marker, color=color, markersize=5, zorder=3)


def legend(figure: Figure, rows: pd.DataFrame) -> None:
    """The verdicts that occur, below the axis."""
    present = {verdict(line) for _, line in rows.iterrows()}
    handles: list[Artist] = [
        Line2D([], [], marker=style.marker, color=style.color, linestyle="none", label=style.words)
        for name, style in STYLES.items()
        if name in present
    ]
    handles.append(Patch(color=BAND, label="95 % by chance"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
