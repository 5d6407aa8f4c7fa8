"""Sentences that compare two systems. None says more than its interval does, and none is said without one.

Over several seeds, the interval is Welch's 95 % interval of a difference of means. All seeds share
one split. With one seed, test accuracies are compared by Newcombe's interval (1998, method 10),
which is over test samples and knows one training of each system. It takes the two for independent,
so it is too wide for systems that answer the same samples.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

LEVEL = 0.95
TESTED = "tested_mean"  # the column of a summary that counts test samples


class Interval(NamedTuple):
    """The ends of a 95 % interval, in the unit of its value."""

    low: float
    high: float


class Difference(NamedTuple):
    """One value less another, with its 95 % interval. basis: in words, the seeds or samples it was computed over."""

    value: float
    interval: Interval
    basis: str

    @property
    def told_apart(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.interval.low > 0 or self.interval.high < 0


def wilson(percent: float, tested: int) -> Interval:
    """The 95 % interval of a share of `tested` samples, percent (Wilson 1927)."""
    from scipy.stats import binomtest

    ends = binomtest(round(percent * tested / 100), tested).proportion_ci(LEVEL, method="wilson")
    return Interval(100 * ends.low, 100 * ends.high)


def accuracy_interval(line: pd.Series) -> Interval | None:
    """The interval of a test accuracy over test samples, percent; None if their number is unknown.

    line: of a summary.
    """
    tested = line.get(TESTED, math.nan)
    mean = line["TA_mean"]
    if pd.isna(tested) or pd.isna(mean):
        return None
    return wilson(float(mean), int(tested))


def difference(one: pd.Series, other: pd.Series, metric: str = "TA") -> Difference | None:
    """One system's mean less the other's. one, other: lines of a summary.

    None if there is no interval: with one seed, only test accuracies over a known number of samples
    have one.
    """
    value = float(one[f"{metric}_mean"] - other[f"{metric}_mean"])
    if min(one["n"], other["n"]) > 1:
        seeds = min(int(one["n"]), int(other["n"]))
        return Difference(value, _welch(value, one, other, metric), f"{seeds} seeds, one split")
    one_interval = accuracy_interval(one)
    other_interval = accuracy_interval(other)
    if metric != "TA" or one_interval is None or other_interval is None:
        return None
    # Newcombe's hybrid score: the distances from each accuracy to the ends of its own Wilson
    # interval
    below = math.hypot(one["TA_mean"] - one_interval.low, other_interval.high - other["TA_mean"])
    above = math.hypot(one_interval.high - one["TA_mean"], other["TA_mean"] - other_interval.low)
    interval = Interval(value - below, value + above)
    return Difference(value, interval, f"one seed, {one[TESTED]:,.0f} test samples")


def _welch(value: float, one: pd.Series, other: pd.Series, metric: str) -> Interval:
    """The 95 % interval of a difference of means over seeds, whose variances may differ."""
    from scipy.stats import t

    sds = np.array([one[f"{metric}_sd"], other[f"{metric}_sd"]], dtype=float)
    counts = np.array([one["n"], other["n"]], dtype=float)
    variances = sds**2 / counts  # of the means
    if not variances.sum():
        return Interval(value, value)
    freedom = variances.sum() ** 2 / (variances**2 / (counts - 1)).sum()  # Welch and Satterthwaite
    half = float(t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(variances.sum()))
    return Interval(value - half, value + half)


def seed_interval(line: pd.Series, metric: str) -> Interval | None:
    """Student's 95 % interval of a mean over seeds; None for one seed."""
    from scipy.stats import t

    if line["n"] < 2 or pd.isna(line[f"{metric}_sd"]):
        return None
    quantile = float(t.ppf((1 + LEVEL) / 2, line["n"] - 1))
    half = quantile * line[f"{metric}_sd"] / math.sqrt(line["n"])
    mean = line[f"{metric}_mean"]
    return Interval(mean - half, mean + half)


def told_apart(one: pd.Series, other: pd.Series, metric: str = "TA") -> bool:
    """Whether two lines of a summary differ by more than the interval of their difference allows."""
    distance = difference(one, other, metric)
    return distance is not None and distance.told_apart


def compare_accuracies(one: pd.Series, other: pd.Series) -> str:
    """Which of two systems is more accurate on test samples, by how much; or that they are not told apart."""
    title = one["title"]
    other_title = other["title"]
    distance = difference(one, other)
    if distance is None:
        return (
            f"{title} and {other_title} are not compared: with one seed, that needs the number of test samples,"
            " which is unknown"
        )
    if not distance.told_apart:
        return f"{title} and {other_title} are not told apart in test accuracy: {_points(distance)}"
    if distance.value > 0:
        return f"{title} is more accurate than {other_title} by {_points(distance)}"
    turned = Interval(-distance.interval.high, -distance.interval.low)
    distance = Difference(-distance.value, turned, distance.basis)
    return f"{other_title} is more accurate than {title} by {_points(distance)}"


def _points(distance: Difference) -> str:
    return f"{distance.value:.1f} points {ends(distance.interval)} ({distance.basis})"


def ends(interval: Interval) -> str:
    """`[low, high]` with one decimal."""
    low, high = np.round(interval, 1) + 0.0  # + 0.0: no minus before a zero
    return f"[{low:.1f}, {high:.1f}]"
