"""The figures of an audit: residual shares with their intervals, as a forest plot and by strata."""

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from munkey.audits.family_audit import DEPLOYED
from munkey.core.diverged import DIVERGED
from munkey.report.figures import theme
from munkey.report.tables.audits import (
    ONLY_ATTACK,
    RESIDUE,
    STRATA,
    is_flagged_only_by_attack,
    name_audited_row,
    select_main_rows,
)

NARROWEST_AXIS = (-25.0, 110.0)  # percent
WIDEST_AXIS = (-300.0, 300.0)
REFERENCES = {0: "never seen", 100: "original"}  # labels of the vertical lines
CONTROL_TITLE = "trained to remember"
CROWDED = 250.0  # percent; on a wider axis, the labels of both lines would overlap if centered


class Style(NamedTuple):
    """The look of a verdict, and its label in the legend."""

    color: str
    marker: str
    label: str


STYLES = {  # by verdict
    "residue": Style(theme.VERMILLION, "o", "residue"),
    "none found": Style(theme.BLUE, "s", "none found"),
    "over-forgets": Style(theme.ORANGE, "D", "over-forgets"),
    "no power": Style(theme.GRAY, "X", "no power"),
    "control": Style(theme.BLACK, "^", "control"),
    "": Style(theme.BLACK, "|", "exploratory path"),  # which has no verdict
}
STRATA_LOOKS = {  # color and marker of each stratum
    "low": (theme.SKY, "v"),
    "mid": (theme.BLUE, "o"),
    "high": (theme.ORANGE, "^"),
    "top": (theme.VERMILLION, "D"),
}


def compute_limits(rows: pd.DataFrame, names: Sequence[str] = ("share",)) -> tuple[float, float]:
    """Compute the limits of an axis of shares in percent.

    The axis shows all intervals within WIDEST_AXIS, and at least NARROWEST_AXIS.

    Parameters
    ----------
    rows
        A table with the columns NAME, NAME_low, NAME_high of each of the names.
    """
    columns = []
    for name in names:
        columns += _list_columns(name)
    ends = rows[columns].to_numpy(dtype=float)
    finite = ends[np.isfinite(ends)].clip(*WIDEST_AXIS)
    low = finite.min(initial=NARROWEST_AXIS[0])
    high = finite.max(initial=NARROWEST_AXIS[1])
    return low - 0.03 * (high - low), high + 0.03 * (high - low)


@matplotlib.rc_context(theme.THEME)
def forest_plot(audit: pd.DataFrame, width: float = theme.DOUBLE) -> Figure:
    """Draw a row for each system: its residual share, the interval, and the band of chance.

    Vertical lines mark 0 (never seen) and 100 (the original). The band behind a row contains 95 %
    of the shares that occur by chance if nothing remains. An interval that extends beyond the axis
    ends in an arrow. Only methods have rows for other paths than the deployed one. Diverged systems
    are left out.

    Raises ValueError if there are no rows.

    Parameters
    ----------
    audit
        Rows of `munkey.audits.family_audit`.
    width
        Width of the figure in inches.
    """
    if len(audit) and (audit["verdict"] == DIVERGED).all():
        return theme.text_figure("Nothing was audited: models diverged.", width)
    audit = audit[audit["verdict"] != DIVERGED]
    rows = select_main_rows(theme.check_frame(audit, ["share"], "forest"))
    figure = theme.canvas(width, 0.9 + theme.ROW_HEIGHT * len(rows))
    axes = figure.subplots()
    ends = compute_limits(rows)
    for place, (_, row) in enumerate(rows.iterrows()):
        style = _style(row)
        band = 1.96 * row["chance"]  # 95 % of a normal distribution
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
    if ends[1] - ends[0] > CROWDED:
        alignments = ["right", "left"]
    else:
        alignments = ["center", "center"]
    for (value, label), alignment in zip(REFERENCES.items(), alignments, strict=True):
        axes.axvline(value, color=theme.BLACK, linewidth=0.8, zorder=1)
        text = theme.wrap_if_narrow(label, width, 8)
        axes.annotate(text, (value, -0.7), ha=alignment, va="bottom", annotation_clip=False)
    theme.label_rows(axes, [_name_line(row, width) for _, row in rows.iterrows()])
    axes.set(xlim=ends, xlabel=RESIDUE)
    _legend(figure, rows)
    return theme.freeze(figure)


@matplotlib.rc_context(theme.THEME)
def strata_plot(audit: pd.DataFrame, width: float = theme.DOUBLE) -> Figure:
    """Draw the shares of each method's strata with their intervals, the least memorized at the top.

    A stratum is left out if its interval is unbounded, because training had too little effect there.
    Methods without any stratum are listed above the plot. If no method has one, the figure says so.
    """
    names = [f"share_of_{name}" for name in STRATA]
    methods = audit[(audit["path"] == DEPLOYED) & (audit["role"] == "method")]
    if names[0] in methods:
        rows = methods.dropna(subset=names).reset_index(drop=True)
    else:
        rows = methods[:0]
    if rows.empty:
        figure = theme.canvas(width, 0.9)
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
            f"No stratum has an interval with two ends: {absent}. More audit.pairs narrow them.",
            width,
        )
    figure = theme.canvas(width, 0.9 + 1.8 * theme.ROW_HEIGHT * len(rows))
    axes = figure.subplots()
    ends = compute_limits(rows, names)
    for place, (_, row) in enumerate(rows.iterrows()):
        for step, (name, stratum_label) in enumerate(STRATA.items()):
            color, marker = STRATA_LOOKS[name]
            height = place + 0.18 * step - 0.27  # four strata around the place of the method
            stratum = row[_list_columns(f"share_of_{name}")].to_numpy(dtype=float)
            share, low, high = np.clip(stratum, *ends)
            axes.plot([low, high], [height, height], color=color, linewidth=1.0, zorder=2)
            label = None
            if place == 0:  # the legend names each stratum once
                label = stratum_label
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
    for value in REFERENCES:
        axes.axvline(value, color=theme.BLACK, linewidth=0.8, zorder=1)
    theme.label_rows(axes, [theme.wrap_if_narrow(str(title), width, 22) for title in rows["title"]])
    axes.set(xlim=ends, xlabel=f"{RESIDUE}: 0 as if never seen, 100 as the original")
    legend_columns = 4
    if width < theme.DOUBLE:
        legend_columns = 2
    figure.legend(loc="outside lower center", ncols=legend_columns)
    if absent:
        remark = f"Not drawn, as no interval has two ends: {absent}"
        figure.suptitle(textwrap.fill(remark, round(16 * width)), fontsize=8, ha="left", x=0.01)
    return theme.freeze(figure)


def _list_columns(name: str) -> list[str]:
    """List the columns of an estimate and its interval."""
    return [name, f"{name}_low", f"{name}_high"]


def _name_line(row: pd.Series, width: float) -> str:
    """Return the label of an audited system's row, with a sign if only an attack flagged it.

    A control is named for its purpose. The table shows how it was trained.
    """
    if str(row["role"]).startswith("control"):
        row = row.replace(row["title"], CONTROL_TITLE)
    name = theme.wrap_if_narrow(name_audited_row(row), width, 22)
    if is_flagged_only_by_attack(row):
        name += f" {ONLY_ATTACK}"
    return name


def _style(row: pd.Series) -> Style:
    if pd.isna(row.get("verdict")):
        return STYLES[""]
    return STYLES[str(row["verdict"])]


def _legend(figure: Figure, rows: pd.DataFrame) -> None:
    """Draw a legend below the axis, with the verdicts that occur."""
    present = set(rows.apply(_style, axis=1))
    handles: list[Artist] = []
    for style in STYLES.values():
        if style in present:
            look: Any = {"marker": style.marker, "color": style.color, "label": style.label}
            handles.append(Line2D([], [], linestyle="none", **look))
    handles.append(Patch(color=theme.BAND, label="95 % by chance"))
    if rows.apply(is_flagged_only_by_attack, axis=1).any():
        handles.append(
            Line2D([], [], linestyle="none", label=f"{ONLY_ATTACK} flagged only by an attack")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
