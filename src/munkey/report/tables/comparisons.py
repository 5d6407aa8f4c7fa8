"""Sentences that compare two systems. None says more than its interval does, and none is said without one.

Over several seeds, the interval is Welch's 95 % interval of a difference of means: of one split, as all seeds share it.
Of one seed, that of test accuracies is Newcombe's (1998, method 10), over test samples: of one training each. It takes
the two for independent, and is too wide for systems that answer the same samples.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

LEVEL = 0.95
TESTED = "tested_mean"  # the column of a summary that counts test samples


class Interval(NamedTuple):
    """The ends of a 95 % interval, in the unit of what they are of."""

    low: float
    high: float


class Difference(NamedTuple):
    """One value less another, with its 95 % interval. basis: what the interval is over, in words."""

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
    """Of a test accuracy, percent, over test samples. line: of a summary; None where it does not say how many."""
    tested = line.get(TESTED, math.nan)
    mean = line["TA_mean"]
    if pd.isna(tested) or pd.isna(mean):
        return None
    return wilson(float(mean), int(tested))


def difference(one: pd.Series, other: pd.Series, metric: str = "TA") -> Difference | None:
    """One system's mean less the other's. one, other: lines of a summary.

    None where no interval can be given: of one seed, and no test accuracy, or nobody knows over how many samples.
    """
    value = float(one[f"{metric}_mean"] - other[f"{metric}_mean"])
    if min(one["n"], other["n"]) > 1:
        seeds = min(int(one["n"]), int(other["n"]))
        return Difference(value, _welch(value, one, other, metric), f"{seeds} seeds, one split")
    own, others = accuracy_interval(one), accuracy_interval(other)
    if metric != "TA" or own is None or others is None:
        return None
    below = math.hypot(one["TA_mean"] - own.low, others.high - other["TA_mean"])
    above = math.hypot(own.high - one["TA_mean"], other["TA_mean"] - others.low)
    return Difference(
        value, Interval(value - below, value + above), f"one seed, {one[TESTED]:,.0f} test samples"
    )


def _welch(value: float, one: pd.Series, other: pd.Series, metric: str) -> Interval:
    """The 95 % interval of a difference of means over seeds, whose variances may differ."""
    from scipy.stats import t

    variances = np.array(
        [line[f"{metric}_sd"] ** 2 / line["n"] for line in (one, other)], dtype=float
    )
    if not variances.sum():
        return Interval(value, value)
    freedom = (
        variances.sum() ** 2
        / (variances**2 / (np.array([one["n"], other["n"]], dtype=float) - 1)).sum()
    )
    half = float(t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(variances.sum()))
    return Interval(value - half, value + half)


def seed_interval(line: pd.Series, metric: str) -> Interval | None:
    """Student's 95 % interval of a mean over seeds; None for one seed."""
    from scipy.stats import t

    if line["n"] < 2 or pd.isna(line[f"{metric}_sd"]):
        return None
    half = (
        float(t.ppf((1 + LEVEL) / 2, line["n"] - 1)) * line[f"{metric}_sd"] / math.sqrt(line["n"])
    )
    return Interval(line[f"{metric}_mean"] - half, line[f"{metric}_mean"] + half)


def told_apart(one: pd.Series, other: pd.Series, metric: str = "TA") -> bool:
    """Whether two lines of a summary differ by more than the interval of their difference allows."""
    known = difference(one, other, metric)
    return known is not None and known.told_apart


def accuracies_compared(one: pd.Series, other: pd.Series) -> str:
    """Which of two systems is more accurate on test samples, by how much; or that they are not told apart."""
    names = (one["title"], other["title"])
    known = difference(one, other)
    if known is None:
        return f"{names[0]} and {names[1]} are not compared: one seed, and the number of test samples is not known"
    if not known.told_apart:
        return f"{names[0]} and {names[1]} are not told apart in test accuracy: {_points(known)}"
    if known.value < 0:
        turned = Interval(-known.interval.high, -known.interval.low)
        return f"{names[1]} is more accurate than {names[0]}: {_points(Difference(-known.value, turned, known.basis))}"
    return f"{names[0]} is more accurate than {names[1]}: {_points(known)}"


def _points(known: Difference) -> str:
    return f"{known.value:.1f} points {ends(known.interval)} ({known.basis})"


def ends(interval: Interval) -> str:
    """`[low, high]` with one decimal."""
    low, high = (f"{end + 0.0:.1f}" for end in np.round(interval, 1))
    return f"[{low}, {high}]"
