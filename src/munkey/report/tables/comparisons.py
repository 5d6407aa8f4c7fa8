"""Sentences that compare two systems, each with the interval that supports it.

Differences in test accuracy are paired: both systems classify the same test samples and start from
the same seeds (`munkey.evaluation.paired`). All seeds share one split.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

LEVEL = 0.95  # confidence level of the intervals
TESTED = "tested_mean"  # summary column: number of test samples
DIFFERENCES = "differences"  # summary column: differences to other systems, by their names


class Interval(NamedTuple):
    """A 95% interval, in the unit of its value."""

    low: float
    high: float


class Difference(NamedTuple):
    """The difference of two values, with its 95% interval.

    Attributes
    ----------
    basis
        A phrase that states the number of seeds and test samples.
    """

    value: float
    interval: Interval
    basis: str

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval.low > 0 or self.interval.high < 0


def compute_wilson_interval(percent: float, tested: int) -> Interval:
    """Return the 95% interval of a percentage of `tested` samples, in percent (Wilson 1927)."""
    from scipy.stats import binomtest

    test = binomtest(round(percent * tested / 100), tested)
    interval = test.proportion_ci(LEVEL, method="wilson")
    return Interval(100 * interval.low, 100 * interval.high)


def compute_accuracy_interval(row: pd.Series) -> Interval | None:
    """Return the 95% interval of a system's test accuracy over test samples, in percent.

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
    """Return the first system's test accuracy minus the other's.

    Returns None if the difference was not measured because a system diverged or the summary has no
    column of differences (`munkey.report.tables.summary.add_differences`).

    Parameters
    ----------
    one, other
        Rows of a summary.
    """
    by_system = one.get(DIFFERENCES)
    if not isinstance(by_system, dict):
        return None
    return by_system.get(other["method"])


def group_differences(
    differences: pd.DataFrame,
) -> dict[tuple[object, ...], dict[str, Difference]]:
    """Return each system's differences from the others, by (dataset, rate, method) and other method.

    Parameters
    ----------
    differences
        The result of `munkey.evaluation.paired.compare_systems`, which contains each pair once.
    """
    by_system: dict[tuple[object, ...], dict[str, Difference]] = {}
    for row in differences.to_dict("records"):
        basis = f"{row['seeds']} seeds, {row['tested']:,} test samples"
        if row["seeds"] == 1:
            basis = f"one seed, so the interval covers only {row['tested']:,} test samples"
        difference = Difference(row["difference"], Interval(row["low"], row["high"]), basis)
        setting = (row["dataset"], row["rate"])
        by_system.setdefault((*setting, row["method"]), {})[row["other"]] = difference
        by_system.setdefault((*setting, row["other"]), {})[row["method"]] = _negate(difference)
    return by_system


def _negate(difference: Difference) -> Difference:
    interval = Interval(-difference.interval.high, -difference.interval.low)
    return Difference(-difference.value, interval, difference.basis)


def compute_half_width_over_seeds(sd: float, seeds: int) -> float:
    """Return half the width of Student's 95% interval of a mean over at least two seeds."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, seeds - 1)) * sd / math.sqrt(seeds)


def compute_interval_of_seeds(values: pd.Series, lows: pd.Series, highs: pd.Series) -> Interval:
    """Return the 95% interval of a mean over seeds and samples, between 0 and 100.

    As in `munkey.evaluation.paired`, two half-widths are added in quadrature: Student's over the
    seeds, and the mean of those over samples. The latter does not shrink with more seeds, because
    all seeds share their test samples.

    Parameters
    ----------
    values
        The percentage of each seed.
    lows, highs
        The ends of its 95% interval over samples.
    """
    mean = float(values.mean())
    over_seeds = 0.0
    if len(values) > 1:
        over_seeds = compute_half_width_over_seeds(float(values.std()), len(values))
    low = mean - math.hypot(over_seeds, float((values - lows).mean()))
    high = mean + math.hypot(over_seeds, float((highs - values).mean()))
    return Interval(max(low, 0.0), min(high, 100.0))


def compute_mia_interval(row: pd.Series) -> Interval | None:
    """Return the 95% interval of the mean MIA in a row of a summary, or None for a single seed.

    It covers seeds, which have different forget sets, and test samples, which all seeds share: at
    chance, the share of forgotten samples that score higher than a test sample is uniform.
    """
    if row["n"] < 2 or pd.isna(row["MIA_sd"]):
        return None
    half_width = compute_half_width_over_seeds(row["MIA_sd"], row["n"])
    tested = row.get(TESTED, math.nan)
    if not pd.isna(tested):
        half_width = math.hypot(half_width, 1.96 * 100 / math.sqrt(12 * tested))
    return Interval(row["MIA_mean"] - half_width, row["MIA_mean"] + half_width)


def differ_significantly(one: pd.Series, other: pd.Series) -> bool:
    """Return whether the test accuracies of two systems differ significantly."""
    difference = get_difference(one, other)
    return difference is not None and difference.is_significant


def compare_accuracies(one: pd.Series, other: pd.Series) -> str:
    """Return a clause that states which system has the higher test accuracy, and by how much.

    If the difference is not significant or was not measured, the clause states that instead.
    """
    title = one["title"]
    other_title = other["title"]
    difference = get_difference(one, other)
    if difference is None:
        return (
            f"{title} and {other_title} are not compared because their predictions for the same test"
            " samples are not available"
        )
    if not difference.is_significant:
        points = _format_points(difference)
        return f"{title} and {other_title} do not differ significantly in test accuracy: {points}"
    if difference.value > 0:
        return f"{title} is more accurate than {other_title} by {_format_points(difference)}"
    points = _format_points(_negate(difference))
    return f"{other_title} is more accurate than {title} by {points}"


def _format_points(difference: Difference) -> str:
    interval = format_interval(difference.interval)
    return f"{difference.value:.1f} points {interval} ({difference.basis})"


def format_interval(interval: Interval) -> str:
    """Return an interval as `[low, high]` with one decimal."""
    low, high = np.round(interval, 1) + 0.0  # adding 0.0 turns -0.0 into 0.0
    return f"[{low:.1f}, {high:.1f}]"
