"""Comparisons: as good as their intervals, by hand; none without one."""

import math

import pandas as pd
import pytest

from munkey.report.tables.comparisons import (
    accuracy_interval,
    compare_accuracies,
    difference,
    told_apart,
    wilson,
)


def line(title, mean, sd=math.nan, n=1, tested=math.nan, gap=1.0):
    return pd.Series(
        {"title": title, "TA_mean": mean, "TA_sd": sd, "n": n, "tested_mean": tested}
        | {"gap_mean": gap, "gap_sd": sd}
    )


def test_of_750_pictures_an_accuracy_of_73_47_is_known_to_about_3_points():
    assert wilson(73.47, 750) == pytest.approx((70.19, 76.50), abs=0.01)  # 551 of 750
    assert accuracy_interval(line("LDA", 73.47, tested=750)) == wilson(73.47, 750)
    assert accuracy_interval(line("LDA", 73.47)) is None
    assert wilson(100, 10).high == pytest.approx(100)


def test_over_seeds_the_interval_is_welchs():
    """se = √(0.28² / 10 + 0.82² / 10) = 0.274; 11.1 degrees of freedom: t = 2.199."""
    known = difference(line("LDA", 96.73, 0.28, 10), line("MUNKEY", 95.39, 0.82, 10))
    assert (known.value, *known.interval) == pytest.approx(
        (1.34, 1.34 - 0.603, 1.34 + 0.603), abs=0.002
    )
    assert known.basis == "10 seeds, one split"
    same = difference(line("A", 90.0, 0.0, 3), line("B", 89.0, 0.0, 3))
    assert tuple(same.interval) == (1.0, 1.0)


def test_of_one_seed_the_interval_is_over_test_samples():
    """Newcombe: √(0.90² + 0.85²) below and √(0.84² + 0.86²) above, from the ends of both Wilson intervals."""
    lda = line("LDA", 75.40, tested=10_000)
    munkey = line("MUNKEY", 74.23, tested=10_000)
    known = difference(lda, munkey)
    assert (known.value, *known.interval) == pytest.approx((1.17, -0.03, 2.37), abs=0.02)
    assert not told_apart(lda, munkey)
    assert told_apart(line("LDA", 73.47, tested=750), line("MUNKEY", 66.0, tested=750))


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (
            line("LDA", 96.73, 0.28, 10),
            line("MUNKEY", 95.39, 0.82, 10),
            "LDA is more accurate than MUNKEY by 1.3 points [0.7, 1.9] (10 seeds, one split)",
        ),
        (
            line("MUNKEY", 66.0, tested=750),
            line("LDA", 73.47, tested=750),
            "LDA is more accurate than MUNKEY by 7.5 points [2.8, 12.1] (one seed, 750 test samples)",
        ),
        (
            line("LDA", 75.4, tested=10_000),
            line("MUNKEY", 74.23, tested=10_000),
            "LDA and MUNKEY are not told apart in test accuracy: 1.2 points [0.0, 2.4] (one seed, 10,000 test samples)",
        ),
        (
            line("LDA", 75.4),
            line("MUNKEY", 14.23),
            "LDA and MUNKEY are not compared: with one seed, that needs the number of test samples, which is unknown",
        ),
    ],
)
def test_no_sentence_says_more_than_its_interval(one, other, words):
    assert compare_accuracies(one, other) == words


def test_a_gap_of_one_seed_has_no_interval_and_tells_nothing_apart():
    sfron = line("SFRon", 39.6, tested=750, gap=1.6)
    negrad = line("NegGrad+", 39.1, tested=750, gap=3.0)
    assert difference(sfron, negrad, "gap") is None and not told_apart(sfron, negrad, "gap")
    assert told_apart(line("A", 90, 0.1, 10, gap=1.6), line("B", 90, 0.1, 10, gap=3.0), "gap")
