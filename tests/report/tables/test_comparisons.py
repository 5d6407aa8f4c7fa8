"""Comparisons: as good as their intervals, by hand; none without one."""

import math

import pandas as pd
import pytest

from munkey.report.tables.comparisons import (
    compare_accuracies,
    compute_accuracy_interval,
    compute_wilson_interval,
    differ_significantly,
    get_difference,
    group_differences,
)
from munkey.report.tables.summary import add_differences


def line(title, mean, tested=math.nan):
    return pd.Series({"title": title, "TA_mean": mean, "n": 1, "tested_mean": tested})


def test_the_interval_of_an_accuracy_over_750_pictures_is_wilsons():
    interval = compute_wilson_interval(73.47, 750)  # 551 of 750
    assert interval == pytest.approx((70.19, 76.50), abs=0.01)
    assert compute_accuracy_interval(line("LDA", 73.47, tested=750)) == interval
    assert compute_accuracy_interval(line("LDA", 73.47)) is None
    assert compute_wilson_interval(100, 10).high == pytest.approx(100)


def two_systems(value, low, high, seeds=10, tested=10_000):
    """The lines of LDA and MUNKEY in a summary, with the difference between them."""
    summary = pd.DataFrame({"dataset": "a", "rate": 0.1, "method": ["lda", "munkey"]})
    summary["title"] = ["LDA", "MUNKEY"]
    pair = {"dataset": "a", "rate": 0.1, "method": "lda", "other": "munkey", "seeds": seeds}
    pair |= {"tested": tested, "difference": value, "low": low, "high": high}
    lda, munkey = add_differences(summary, pd.DataFrame([pair])).to_dict("records")
    return pd.Series(lda), pd.Series(munkey)


def test_a_difference_changes_its_sign_with_the_order_of_the_systems():
    lda, munkey = two_systems(1.25, 0.5, 2.0)
    forward = get_difference(lda, munkey)
    backward = get_difference(munkey, lda)
    assert (forward.value, *forward.interval) == (1.25, 0.5, 2.0)
    assert (backward.value, *backward.interval) == (-1.25, -2.0, -0.5)
    assert forward.basis == "10 seeds, 10,000 test samples"
    assert get_difference(lda, lda) is None
    assert group_differences(pd.DataFrame()) == {}


@pytest.mark.parametrize(
    ("difference", "is_significant", "start", "numbers"),
    [
        (
            (1.34, 0.74, 1.94),
            True,
            "LDA is more accurate than MUNKEY",
            "1.3 points [0.7, 1.9] (10 seeds, 10,000 test samples)",
        ),
        (
            (-7.47, -12.1, -2.8, 1, 750),
            True,
            "MUNKEY is more accurate than LDA",
            "7.5 points [2.8, 12.1] (one seed, so the interval covers only 750 test samples)",
        ),
        (
            (1.17, -0.03, 2.37, 1),
            False,
            "LDA and MUNKEY do not differ significantly",
            "1.2 points [0.0, 2.4] (one seed, so the interval covers only 10,000 test samples)",
        ),
    ],
)
def test_a_comparison_claims_a_difference_only_if_its_interval_excludes_0(
    difference, is_significant, start, numbers
):
    lda, munkey = two_systems(*difference)
    sentence = compare_accuracies(lda, munkey)
    assert sentence.startswith(start)
    assert sentence.endswith(numbers)
    assert differ_significantly(lda, munkey) == is_significant
    assert differ_significantly(munkey, lda) == is_significant


def test_systems_without_a_difference_are_not_compared():
    lda = line("LDA", 75.4)
    munkey = line("MUNKEY", 14.23)
    assert not differ_significantly(lda, munkey)
    assert "LDA and MUNKEY are not compared" in compare_accuracies(lda, munkey)
