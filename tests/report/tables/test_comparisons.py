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


def test_of_750_pictures_an_accuracy_of_73_47_is_known_to_about_3_points():
    assert compute_wilson_interval(73.47, 750) == pytest.approx(
        (70.19, 76.50), abs=0.01
    )  # 551 of 750
    assert compute_accuracy_interval(line("LDA", 73.47, tested=750)) == compute_wilson_interval(
        73.47, 750
    )
    assert compute_accuracy_interval(line("LDA", 73.47)) is None
    assert compute_wilson_interval(100, 10).high == pytest.approx(100)


def two_systems(value, low, high, seeds=10, tested=10_000):
    """The lines of a summary, of LDA and MUNKEY, which differ by so much."""
    summary = pd.DataFrame({"dataset": "a", "rate": 0.1, "method": ["lda", "munkey"]})
    summary["title"] = ["LDA", "MUNKEY"]
    pair = {"dataset": "a", "rate": 0.1, "method": "lda", "other": "munkey", "seeds": seeds}
    pair |= {"tested": tested, "difference": value, "low": low, "high": high}
    return [one for _, one in add_differences(summary, pd.DataFrame([pair])).iterrows()]


def test_a_difference_is_known_from_both_sides():
    lda, munkey = two_systems(1.25, 0.5, 2.0)
    assert (get_difference(lda, munkey).value, *get_difference(lda, munkey).interval) == (
        1.25,
        0.5,
        2.0,
    )
    assert (get_difference(munkey, lda).value, *get_difference(munkey, lda).interval) == (
        -1.25,
        -2.0,
        -0.5,
    )
    assert get_difference(lda, munkey).basis == "10 seeds, 10,000 test samples"
    assert get_difference(lda, lda) is None
    assert group_differences(pd.DataFrame()) == {}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            (1.34, 0.74, 1.94),
            "LDA is more accurate than MUNKEY by 1.3 points [0.7, 1.9] (10 seeds, 10,000 test samples)",
        ),
        (
            (-7.47, -12.1, -2.8, 1, 750),
            "MUNKEY is more accurate than LDA by 7.5 points [2.8, 12.1]"
            " (one seed, so the interval covers only 750 test samples)",
        ),
        (
            (1.17, -0.03, 2.37, 1),
            "LDA and MUNKEY do not differ significantly in test accuracy: 1.2 points [0.0, 2.4]"
            " (one seed, so the interval covers only 10,000 test samples)",
        ),
    ],
)
def test_no_sentence_says_more_than_its_interval(found, words):
    lda, munkey = two_systems(*found)
    assert compare_accuracies(lda, munkey) == words
    assert (
        differ_significantly(lda, munkey)
        == differ_significantly(munkey, lda)
        == ("do not differ significantly" not in words)
    )


def test_what_was_not_compared_is_not_told_apart():
    one, other = line("LDA", 75.4), line("MUNKEY", 14.23)
    assert not differ_significantly(one, other)
    assert compare_accuracies(one, other) == (
        "LDA and MUNKEY are not compared because their predictions for the same test samples are not available"
    )
