"""Axes of residual shares, which the figures of the audits have in common."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from munkey.report.figures.theme import BLACK, BLUE, GRAY, ORANGE, VERMILLION

NARROWEST, WIDEST = (-25.0, 110.0), (-300.0, 300.0)  # percent
MARKS = {0: "never seen", 100: "nothing done"}


class Style(NamedTuple):
    """How a verdict looks, and what it means."""

    color: str
    marker: str
    words: str


STYLES = {  # of verdicts
    "residue": Style(VERMILLION, "o", "residue"),
    "none found": Style(BLUE, "s", "none found"),
    "over-forgets": Style(ORANGE, "D", "over-forgets"),
    "no power": Style(GRAY, "X", "no power"),
    "control": Style(BLACK, "^", "control"),
    "": Style(BLACK, "|", "exploratory path"),
}


class Limits(NamedTuple):
    """The ends of an axis of shares, percent."""

    low: float
    high: float


def limits(rows: pd.DataFrame) -> Limits:
    """Wide enough for all intervals, within reason. rows: with the columns share, share_low, share_high."""
    ends = rows[["share", "share_low", "share_high"]].to_numpy(dtype=float)
    shown = ends[np.isfinite(ends)].clip(*WIDEST)
    low, high = min(shown.min(), NARROWEST[0]), max(shown.max(), NARROWEST[1])
    return Limits(low - 0.03 * (high - low), high + 0.03 * (high - low))


def verdict(line: pd.Series) -> str:
    """The verdict of a row of an audit; empty for an exploratory path, which has none."""
    return str(line["verdict"]) if pd.notna(line.get("verdict")) else ""
