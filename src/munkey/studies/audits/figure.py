"""Figures of residual shares with their intervals: the forest plot and the strata of an audit."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from munkey.core.diverged import DIVERGED
from munkey.evaluation.records import DEPLOYED
from munkey.report.figures import theme
from munkey.report.tables.shares import is_flagged_by_attack_only, name_audited_system
from munkey.report.tables.summary import ATTACK_ONLY, RESIDUE
from munkey.studies.audits.tables import STRATA, select_first_rows

NARROWEST = (-25.0, 110.0)  # percent
WIDEST = (-300.0, 300.0)
MARKS = {0: "never seen", 100: "original"}
REMEMBERS = "trained to remember"
CHANCE_BAND = "95% range if nothing remains"  # the label of the chance band
# On a wider axis [percent], the labels of both marks are placed next to their lines, not above them.
CROWDED = 250.0


class Style(NamedTuple):
    """The color, marker and legend label of a verdict."""

    color: str
    marker: str
    label: str


STYLES = {  # by verdict
    "residue": Style(theme.VERMILLION, "o", "residue"),
    "none found": Style(theme.BLUE, "s", "none found"),
    "over-forgets": Style(theme.ORANGE, "D", "over-forgets"),
    "no power": Style(theme.GRAY, "X", "no power"),
    "control": Style(theme.BLACK, "^", "control"),
    "": Style(theme.BLACK, "|", "exploratory path"),  # exploratory paths have no verdict
}
STRATUM_LOOKS = {  # color and marker of each stratum
    "low": (theme.SKY, "v"),
    "mid": (theme.BLUE, "o"),
    "high": (theme.ORANGE, "^"),
    "top": (theme.VERMILLION, "D"),
}


def compute_limits(rows: pd.DataFrame, names: Sequence[str] = ("share",)) -> tuple[float, float]:
    """Return the limits of an axis of shares, in percent.

    The axis covers NARROWEST and all intervals, clipped to WIDEST.

    Parameters
    ----------
    rows
        A table with the columns NAME, NAME_low and NAME_high for each of the names.
    """
    columns = []
    for name in names:
        columns += _list_columns(name)
    ends = rows[columns].to_numpy(dtype=float)
    finite = ends[np.isfinite(ends)].clip(*WIDEST)
    low = finite.min(initial=NARROWEST[0])
    high = finite.max(initial=NARROWEST[1])
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


@matplotlib.rc_context(theme.THEME)
def forest_plot(audit: pd.DataFrame, width: float = theme.DOUBLE) -> Figure:
    """Draw one row per system with its residual share, its interval, and the chance band.

    Vertical lines mark 0 (never seen) and 100 (the original). The band behind a row contains 95% of
    the shares that occur by chance if nothing remains. Arrows mark intervals that extend beyond the
    axis. Paths other than the deployed one are drawn only for methods. Systems that diverged or
    whose share could not be measured are left out.

    Raises ValueError if there are no rows.

    Parameters
    ----------
    audit
        The rows of `munkey.audits.family_audit`.
    width
        The width of the figure in inches.
    """
    if len(audit) and (audit["verdict"] == DIVERGED).all():
        return theme.text_figure("Nothing was audited: models diverged.", width)
    audit = audit[audit["verdict"] != DIVERGED]
    measured = audit[np.isfinite(audit.get("share", pd.Series(np.nan, audit.index)))]
    if len(audit) and measured.empty:
        return theme.text_figure("No residual share could be measured.", width)
    rows = select_first_rows(theme.check_frame(measured, ["share"], "forest"))
    figure = theme.make_canvas(width, 0.9 + theme.LINE_HEIGHT * len(rows))
    axes = figure.subplots()
    ends = compute_limits(rows)
    for place, (_, row) in enumerate(rows.iterrows()):
        style = _get_style(row)
        band = 1.96 * row["chance"]  # half-width of the central 95% of a normal distribution
        axes.fill_betweenx([place - 0.4, place + 0.4], -band, band, color=theme.BAND, linewidth=0)
        low, high = np.clip([row["share_low"], row["share_high"]], *ends)
        axes.plot([low, high], [place, place], color=style.color, linewidth=1.2, zorder=2)
        arrows = (
            (row["share_low"] < low, low, "<"),
            (row["share_high"] > high, high, ">"),
        )
        for is_cut, edge, arrow in arrows:
            if is_cut:
                axes.plot(
                    edge,
                    place,
                    marker=arrow,
                    color=style.color,
                    markersize=4,
                    clip_on=False,
                    zorder=3,
                )
        share = np.clip(row["share"], *ends)
        axes.plot(share, place, marker=style.marker, color=style.color, markersize=5, zorder=3)
    is_crowded = ends[1] - ends[0] > CROWDED
    sides = ["right", "left"] if is_crowded else ["center", "center"]
    for (value, label), side in zip(MARKS.items(), sides, strict=True):
        axes.axvline(value, color=theme.BLACK, linewidth=0.8, zorder=1)
        axes.annotate(
            theme.wrap_words(label, width, 8),
            (value, -0.7),
            ha=side,
            va="bottom",
            annotation_clip=False,
        )
    theme.name_lines(axes, [_get_label(row, width) for _, row in rows.iterrows()])
    axes.set(xlim=ends, xlabel=RESIDUE)
    _add_legend(figure, rows, width)
    return theme.freeze(figure)


@matplotlib.rc_context(theme.THEME)
def strata_plot(audit: pd.DataFrame, width: float = theme.DOUBLE) -> Figure:
    """Draw the residual shares of each method's strata with their intervals.

    The least memorized stratum is at the top. Strata with an unbounded interval are left out,
    because training had too little effect on their samples. Methods without any stratum are listed
    above the plot. If no method has strata, the figure says so.
    """
    names = [f"share_of_{name}" for name in STRATA]
    methods = audit[(audit["path"] == DEPLOYED) & (audit["role"] == "method")]
    if names[0] in methods:
        rows = methods.dropna(subset=names, how="all").reset_index(drop=True)
    else:
        rows = methods[:0]
    if rows.empty:
        figure = theme.make_canvas(width, 0.9)
        figure.text(
            0.5, 0.5, "no strata: too few pairs, or too small a pool", ha="center", va="center"
        )
        return theme.freeze(figure)
    for name in names:
        columns = _list_columns(name)
        is_finite = np.isfinite(rows[columns]).all(axis=1)
        rows.loc[~is_finite, columns] = np.nan
    is_empty = rows[names].isna().all(axis=1)
    absent = ", ".join(map(str, rows.loc[is_empty, "title"]))
    rows = rows[~is_empty].reset_index(drop=True)
    if rows.empty:
        return theme.text_figure(
            f"All intervals are unbounded: {absent}. Increase audit.pairs to narrow them.",
            width,
        )
    figure = theme.make_canvas(width, 0.9 + 1.8 * theme.LINE_HEIGHT * len(rows))
    axes = figure.subplots()
    ends = compute_limits(rows, names)
    for place, (_, row) in enumerate(rows.iterrows()):
        for step, (name, description) in enumerate(STRATA.items()):
            color, marker = STRATUM_LOOKS[name]
            height = place + 0.18 * step - 0.27  # the four strata are centered on the row
            stratum = row[_list_columns(f"share_of_{name}")].to_numpy(dtype=float)
            share, low, high = np.clip(stratum, *ends)
            axes.plot([low, high], [height, height], color=color, linewidth=1.0, zorder=2)
            label = description if place == 0 else None  # list each stratum once in the legend
            axes.plot(
                share,
                height,
                marker=marker,
                color=color,
                markersize=4,
                linestyle="none",
                label=label,
                zorder=3,
            )
    for value in MARKS:
        axes.axvline(value, color=theme.BLACK, linewidth=0.8, zorder=1)
    theme.name_lines(axes, [theme.wrap_words(str(title), width, 22) for title in rows["title"]])
    axes.set(xlim=ends, xlabel=f"{RESIDUE}: 0 as if never seen, 100 as the original")
    legend_columns = 2 if width < theme.DOUBLE else 4
    figure.legend(loc="outside lower center", ncols=legend_columns)
    if absent:
        note = f"Not drawn because all intervals are unbounded: {absent}"
        figure.suptitle(textwrap.fill(note, round(16 * width)), fontsize=8, ha="left", x=0.01)
    return theme.freeze(figure)


def _list_columns(name: str) -> list[str]:
    """Return the columns of an estimate and its interval."""
    return [name, f"{name}_low", f"{name}_high"]


def _get_label(row: pd.Series, width: float) -> str:
    """Return the label of an audited system, marked if it was flagged only by an attack.

    The label of a control states its purpose. The table states how it was trained.
    """
    if str(row["role"]).startswith("control"):
        row = row.copy()
        row["title"] = REMEMBERS
    label = theme.wrap_words(name_audited_system(row), width, 22)
    if is_flagged_by_attack_only(row):
        label += f" {ATTACK_ONLY}"
    return label


def _get_style(row: pd.Series) -> Style:
    if pd.isna(row.get("verdict")):
        return STYLES[""]
    return STYLES[str(row["verdict"])]


def _add_legend(figure: Figure, rows: pd.DataFrame, width: float) -> None:
    """Draw a legend below the axes.

    It explains the verdicts that occur in the figure, the chance band, and the mark of systems that
    were flagged only by an attack, if there are any.
    """
    used_styles = set(rows.apply(_get_style, axis=1))
    handles: list[Artist] = []
    for style in STYLES.values():
        if style in used_styles:
            handles.append(
                Line2D(
                    [],
                    [],
                    linestyle="none",
                    marker=style.marker,
                    color=style.color,
                    label=style.label,
                )
            )
    handles.append(Patch(color=theme.BAND, label=CHANCE_BAND))
    if rows.apply(is_flagged_by_attack_only, axis=1).any():
        handles.append(
            Line2D([], [], linestyle="none", label=f"{ATTACK_ONLY} flagged by an attack alone")
        )
    # Three columns do not fit into a narrow figure.
    legend_columns = 2 if width < theme.DOUBLE else 3
    figure.legend(handles=handles, loc="outside lower center", ncols=legend_columns)
