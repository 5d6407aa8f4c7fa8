"""Residual shares with their intervals: the forest plot of an audit."""

from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from munkey.report.figures import theme
from munkey.report.tables.audits import ALONE, audited_name, first_rows, flagged_alone

NARROWEST, WIDEST = (-25.0, 110.0), (-300.0, 300.0)  # percent
MARKS = {0: "never seen", 100: "nothing done"}
REMEMBERS = "trained to remember"
CROWDED = 250.0  # percent: on a wider axis the words of both marks stand beside their lines, not above them


class Style(NamedTuple):
    """How a verdict looks, and what it means."""

    color: str
    marker: str
    words: str


STYLES = {  # of verdicts
    "residue": Style(theme.VERMILLION, "o", "residue"),
    "none found": Style(theme.BLUE, "s", "none found"),
    "over-forgets": Style(theme.ORANGE, "D", "over-forgets"),
    "no power": Style(theme.GRAY, "X", "no power"),
    "control": Style(theme.BLACK, "^", "control"),
    "": Style(theme.BLACK, "|", "exploratory path"),  # which has no verdict
}


def limits(rows: pd.DataFrame) -> tuple[float, float]:
    """The ends of an axis of shares, percent: wide enough for all intervals, within reason.

    rows: with the columns share, share_low, share_high.
    """
    ends = rows[["share", "share_low", "share_high"]].to_numpy(dtype=float)
    finite = ends[np.isfinite(ends)].clip(*WIDEST)
    low, high = min(finite.min(), NARROWEST[0]), max(finite.max(), NARROWEST[1])
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


@matplotlib.rc_context(theme.THEME)
def forest_plot(audit: pd.DataFrame, width: float = theme.DOUBLE) -> Figure:
    """audit: rows of `munkey.audits.family_audit`. Lines at 0 (never seen) and 100 (nothing done); behind each row,
    the band in which 95 % of shares fall by chance where nothing is left. An interval that has no end, or ends far
    beyond the axis, has an arrow there.

    Of methods alone, other paths than the deployed one are shown. width: inches. Raises ValueError for no rows.
    """
    rows = first_rows(theme.checked(audit, ["share"], "forest"))
    figure = theme.canvas(width, 0.9 + theme.LINE_HEIGHT * len(rows))
    axes, ends = figure.subplots(), limits(rows)
    for place, (_, line) in enumerate(rows.iterrows()):
        style, band = _style(line), 1.96 * line["chance"]
        axes.fill_betweenx([place - 0.4, place + 0.4], -band, band, color=theme.BAND, linewidth=0)
        low, high = np.clip([line["share_low"], line["share_high"]], *ends)
        axes.plot([low, high], [place, place], color=style.color, linewidth=1.2, zorder=2)
        for beyond, edge, arrow in ((line["share_low"] < low, low, "<"), (line["share_high"] > high, high, ">")):
            if beyond:
                axes.plot(edge, place, marker=arrow, color=style.color, markersize=4, clip_on=False, zorder=3)
        share = np.clip(line["share"], *ends)
        axes.plot(share, place, marker=style.marker, color=style.color, markersize=5, zorder=3)
    apart = ends[1] - ends[0] > CROWDED
    for (value, words), side in zip(MARKS.items(), ("right", "left"), strict=True):
        axes.axvline(value, color=theme.BLACK, linewidth=0.8, zorder=1)
        beside: Any = {"ha": side if apart else "center", "va": "bottom", "annotation_clip": False}
        axes.annotate(theme.fitted(words, width, 8), (value, -0.7), **beside)
    theme.name_lines(axes, [_name(line, width) for _, line in rows.iterrows()])
    axes.set(xlim=ends, xlabel="residual share [%]")
    _legend(figure, rows)
    return theme.freeze(figure)


def _name(line: pd.Series, width: float) -> str:
    """As in the table, which also says how the control was trained."""
    remembers = str(line["role"]).startswith("control")
    name = theme.fitted(audited_name(line.replace(line["title"], REMEMBERS) if remembers else line), width, 22)
    return f"{name} {ALONE}" if flagged_alone(line) else name


def _style(line: pd.Series) -> Style:
    return STYLES[str(line["verdict"]) if pd.notna(line.get("verdict")) else ""]


def _legend(figure: Figure, rows: pd.DataFrame) -> None:
    """The verdicts that occur, below the axis."""
    present = {_style(line) for _, line in rows.iterrows()}
    handles: list[Artist] = [
        Line2D([], [], marker=style.marker, color=style.color, linestyle="none", label=style.words)
        for style in STYLES.values()
        if style in present
    ]
    handles.append(Patch(color=theme.BAND, label="95 % by chance"))
    if any(flagged_alone(line) for _, line in rows.iterrows()):
        handles.append(Line2D([], [], linestyle="none", label=f"{ALONE} flagged by an attack alone"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
