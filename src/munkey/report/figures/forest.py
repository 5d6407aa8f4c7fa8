"""How much is left after deletion: residual shares with their intervals, one line for each system and path."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from munkey.report.audits import named, shown
from munkey.report.figures.theme import BLACK, BLUE, DOUBLE, GRAY, ORANGE, THEME, VERMILLION, canvas, checked, freeze

COLUMNS = ["family", "title", "role", "path", "share", "share_low", "share_high", "chance", "verdict"]
BAND = "#dddddd"
LIMITS = (-100.0, 125.0)  # of the axis, percent; what lies beyond is an arrow at its edge
STYLES = {  # of a verdict: color, marker, and what it means
    "residue": (VERMILLION, "o", "residue"),
    "none found": (BLUE, "s", "none found"),
    "over-forgets": (ORANGE, "D", "over-forgets"),
    "no power": (GRAY, "X", "no power"),
    "control": (BLACK, "o", "control"),
    "": (BLACK, "|", "exploratory path"),
}


@matplotlib.rc_context(THEME)
def draw(audit: pd.DataFrame) -> Figure:
    """audit: rows as `munkey.audits.rows` makes them. Lines at 0 (never seen) and 100 (nothing done); behind each row,
    the band in which 95 % of shares fall by chance where nothing is left.

    Of methods alone, other paths than the deployed one are shown. Raises ValueError for no rows or missing columns.
    """
    rows = shown(checked(audit, COLUMNS, ["share"], "forest"))
    figure = canvas(DOUBLE, 0.9 + 0.23 * len(rows))
    axes = figure.subplots()
    for place, line in rows.iterrows():
        _row(axes, float(place), line)  # type: ignore[arg-type]
    for value, words in ((0, "never seen"), (100, "nothing done")):
        axes.axvline(value, color=BLACK, linewidth=0.8, zorder=1)
        axes.annotate(words, (value, -0.9), ha="center", va="bottom", annotation_clip=False)
    axes.set_yticks(range(len(rows)), [named(line) for _, line in rows.iterrows()])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=LIMITS, ylim=(len(rows) - 0.4, -0.8), xlabel="residual share [%]")
    _legend(axes, rows)
    return freeze(figure)


def _verdict(line: pd.Series) -> str:
    return str(line["verdict"]) if pd.notna(line.get("verdict")) else ""


def _row(axes: Axes, place: float, line: pd.Series) -> None:
    color, marker, _ = STYLES[_verdict(line)]
    band = 1.96 * line["chance"]
    axes.fill_betweenx([place - 0.4, place + 0.4], -band, band, color=BAND, linewidth=0, zorder=0)
    low, high = np.clip([line["share_low"], line["share_high"]], *LIMITS)
    axes.plot([low, high], [place, place], color=color, linewidth=1.2, zorder=2)
    for end, edge, arrow in ((line["share_low"], LIMITS[0], "<"), (line["share_high"], LIMITS[1], ">")):
        if (end < edge) if arrow == "<" else (end > edge):
            axes.plot(edge, place, marker=arrow, color=color, markersize=4, clip_on=False, zorder=3)
    axes.plot(np.clip(line["share"], *LIMITS), place, marker=marker, color=color, markersize=5, zorder=3)


def _legend(axes: Axes, rows: pd.DataFrame) -> None:
    """The verdicts that occur, below the axis."""
    present = {_verdict(line) for _, line in rows.iterrows()}
    handles: list[Artist] = [
        axes.plot([], [], marker=marker, color=color, linestyle="none", label=words)[0]
        for verdict, (color, marker, words) in STYLES.items()
        if verdict in present
    ]
    handles.append(Patch(color=BAND, label="95 % by chance"))
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=3)
