"""Sentences that compare two systems. None says more than its interval does, and none is said without one.

Differences in test accuracy are paired: both systems answer the same test samples, and start from
the same seeds (`munkey.evaluation.paired`). All seeds share one split.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

LEVEL = 0.95
TESTED = "tested_mean"  # the column of a summary that counts test samples
DIFFERENCES = "differences"  # its column of differences to other systems, by their names


class Interval(NamedTuple):
    """The ends of a 95 % interval, in the unit of its value."""

    low: float
    high: float


class Difference(NamedTuple):
    """One value less another, with its 95 % interval.

    Attributes
    ----------
    basis
        The seeds and samples it was computed over, in words.
    """

    value: float
    interval: Interval
    basis: str

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.interval.low > 0 or self.interval.high < 0


def compute_wilson_interval(percent: float, tested: int) -> Interval:
    """Return the 95 % interval of a share of `tested` samples, percent (Wilson 1927)."""
    from scipy.stats import binomtest

    ends = binomtest(round(percent * tested / 100), tested).proportion_ci(LEVEL, method="wilson")
    return Interval(100 * ends.low, 100 * ends.high)


def compute_accuracy_interval(line: pd.Series) -> Interval | None:
    """Return the interval of a test accuracy over test samples, percent; None if their number is unknown.

    Parameters
    ----------
    line
        A line of a summary.
    """
    tested = line.get(TESTED, math.nan)
    mean = line["TA_mean"]
    if pd.isna(tested) or pd.isna(mean):
        return None
    return compute_wilson_interval(float(mean), int(tested))


def get_difference(one: pd.Series, other: pd.Series) -> Difference | None:
    """Return one system's test accuracy less the other's.

    None if it was not measured: one of them diverged, or the summary has no differences
    (`munkey.report.tables.summary.read_main`).

    Parameters
    ----------
    one, other
        Lines of a summary.
    """
    by_system = one.get(DIFFERENCES)
    if not isinstance(by_system, dict):
        return None
    return by_system.get(other["method"])


def index_differences(lines: pd.DataFrame) -> dict[tuple[object, ...], dict[str, Difference]]:
    """Return all differences from a system to others, by (dataset, rate, method), then by the other's name.

    Parameters
    ----------
    lines
        The result of `munkey.evaluation.paired.compare_systems`, which has each pair once.
    """
    by_system: dict[tuple[object, ...], dict[str, Difference]] = {}
    for line in lines.to_dict("records"):
        seeds = "one seed" if line["seeds"] == 1 else f"{line['seeds']} seeds"
        basis = f"{seeds}, {line['tested']:,} test samples"
        forward = Difference(line["difference"], Interval(line["low"], line["high"]), basis)
        backward = Difference(-line["difference"], Interval(-line["high"], -line["low"]), basis)
        request = (line["dataset"], line["rate"])
        by_system.setdefault((*request, line["method"]), {})[line["other"]] = forward
        by_system.setdefault((*request, line["other"]), {})[line["method"]] = backward
    return by_system


def compute_seed_interval(line: pd.Series, metric: str) -> Interval | None:
    """Return Student's 95 % interval of a mean over seeds; None for one seed."""
    from scipy.stats import t

    if line["n"] < 2 or pd.isna(line[f"{metric}_sd"]):
        return None
    quantile = float(t.ppf((1 + LEVEL) / 2, line["n"] - 1))
    half_width = quantile * line[f"{metric}_sd"] / math.sqrt(line["n"])
    mean = line[f"{metric}_mean"]
    return Interval(mean - half_width, mean + half_width)


def are_distinguishable(one: pd.Series, other: pd.Series) -> bool:
    """Return whether two test accuracies differ by more than the interval of their difference allows."""
    distance = get_difference(one, other)
    return distance is not None and distance.excludes_zero


def compare_accuracies(one: pd.Series, other: pd.Series) -> str:
    """Return in words which of two systems is more accurate on test samples, and by how much.

    If they are not told apart, or not compared, it says so.
    """
    title = one["title"]
    other_title = other["title"]
    distance = get_difference(one, other)
    if distance is None:
        return f"{title} and {other_title} are not compared: their answers to the same test samples are not known"
    if not distance.excludes_zero:
        points = _format_points(distance)
        return f"{title} and {other_title} are not told apart in test accuracy: {points}"
    if distance.value > 0:
        return f"{title} is more accurate than {other_title} by {_format_points(distance)}"
    negated = Interval(-distance.interval.high, -distance.interval.low)
    distance = Difference(-distance.value, negated, distance.basis)
    return f"{other_title} is more accurate than {title} by {_format_points(distance)}"


def _format_points(distance: Difference) -> str:
    return f"{distance.value:.1f} points {format_interval(distance.interval)} ({distance.basis})"


def format_interval(interval: Interval) -> str:
    """Return an interval as `[low, high]` with one decimal."""
    low, high = np.round(interval, 1) + 0.0  # + 0.0: no minus before a zero
    return f"[{low:.1f}, {high:.1f}]"
