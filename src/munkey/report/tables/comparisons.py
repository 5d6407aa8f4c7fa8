"""Comparisons of two systems: differences with their 95 % intervals, and sentences on them.

Differences in test accuracy are paired: both systems classify the same test samples, and start from
the same seeds (`munkey.evaluation.paired`). All seeds share one split.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

LEVEL = 0.95
TESTED = "tested_mean"  # the column of a summary that counts test samples
DIFFERENCES = "differences"  # the column of differences to other systems, by their names


class Interval(NamedTuple):
    """A 95 % interval, in the unit of its value."""

    low: float
    high: float


class Difference(NamedTuple):
    """A difference of two values, with its 95 % interval.

    Attributes
    ----------
    basis
        The numbers of seeds and samples behind it, as text.
    """

    value: float
    interval: Interval
    basis: str

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval.low > 0 or self.interval.high < 0


def compute_wilson_interval(percent: float, tested: int) -> Interval:
    """Compute the 95 % interval of a share of `tested` samples, in percent (Wilson 1927)."""
    from scipy.stats import binomtest

    test = binomtest(round(percent * tested / 100), tested)
    interval = test.proportion_ci(LEVEL, method="wilson")
    return Interval(100 * interval.low, 100 * interval.high)


def compute_accuracy_interval(row: pd.Series) -> Interval | None:
    """Compute the interval of a test accuracy over test samples, in percent.

    Returns None if the accuracy or the number of test samples is unknown.

    Parameters
    ----------
    row
        A row of a summary.
    """
    tested = row.get(TESTED, math.nan)
    mean = row["TA_mean"]
    if pd.isna(tested) or pd.isna(mean):
        return None
    return compute_wilson_interval(float(mean), int(tested))


def get_difference(one: pd.Series, other: pd.Series) -> Difference | None:
    """Return one system's test accuracy minus the other's.

    Returns None if one of them diverged, or if the summary has no differences
    (`munkey.report.tables.summary.read_main`).

    Parameters
    ----------
    one, other
        Rows of a summary.
    """
    by_system = one.get(DIFFERENCES)
    if not isinstance(by_system, dict):
        return None
    return by_system.get(other["method"])


def index_differences(rows: pd.DataFrame) -> dict[tuple[object, ...], dict[str, Difference]]:
    """Index differences by (dataset, rate, method), then by the other system's name.

    Parameters
    ----------
    rows
        The result of `munkey.evaluation.paired.compare_systems`, which has each pair of systems once.
    """
    by_system: dict[tuple[object, ...], dict[str, Difference]] = {}
    for row in rows.to_dict("records"):
        seeds = "one seed" if row["seeds"] == 1 else f"{row['seeds']} seeds"
        basis = f"{seeds}, {row['tested']:,} test samples"
        forward = Difference(row["difference"], Interval(row["low"], row["high"]), basis)
        backward = Difference(-row["difference"], Interval(-row["high"], -row["low"]), basis)
        request = (row["dataset"], row["rate"])
        by_system.setdefault((*request, row["method"]), {})[row["other"]] = forward
        by_system.setdefault((*request, row["other"]), {})[row["method"]] = backward
    return by_system


def compute_seed_interval(row: pd.Series, metric: str) -> Interval | None:
    """Return Student's 95 % interval of a mean over seeds; None for one seed."""
    from scipy.stats import t

    if row["n"] < 2 or pd.isna(row[f"{metric}_sd"]):
        return None
    quantile = float(t.ppf((1 + LEVEL) / 2, row["n"] - 1))
    half_width = quantile * row[f"{metric}_sd"] / math.sqrt(row["n"])
    mean = row[f"{metric}_mean"]
    return Interval(mean - half_width, mean + half_width)


def are_distinguishable(one: pd.Series, other: pd.Series) -> bool:
    """Return whether two test accuracies differ significantly (95 % interval)."""
    distance = get_difference(one, other)
    return distance is not None and distance.excludes_zero


def compare_accuracies(one: pd.Series, other: pd.Series) -> str:
    """Write which of two systems is more accurate on test samples, and by how much.

    The text also covers the cases without a significant difference, or without a comparison.
    """
    title = one["title"]
    other_title = other["title"]
    distance = get_difference(one, other)
    if distance is None:
        return f"{title} and {other_title} are not compared: predictions for the same test samples are missing"
    if not distance.excludes_zero:
        points = _format_points(distance)
        return f"{title} and {other_title} do not differ significantly in test accuracy: {points}"
    if distance.value > 0:
        return f"{title} is more accurate than {other_title} by {_format_points(distance)}"
    negated = Interval(-distance.interval.high, -distance.interval.low)
    distance = Difference(-distance.value, negated, distance.basis)
    return f"{other_title} is more accurate than {title} by {_format_points(distance)}"


def _format_points(distance: Difference) -> str:
    return f"{distance.value:.1f} points {format_interval(distance.interval)} ({distance.basis})"


def format_interval(interval: Interval) -> str:
    """Format an interval as `[low, high]`, with one decimal."""
    low, high = np.round(interval, 1) + 0.0  # + 0.0: no minus before a zero
    return f"[{low:.1f}, {high:.1f}]"
