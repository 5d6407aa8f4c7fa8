"""Tests by redrawn halves: by hand, in how often they are wrong, and where they can find nothing."""

import numpy as np
import pytest
from scipy.stats import binom

from munkey.audits.redraws import run_permutation_tests

FIRST = np.array([[True, True, False, False]] * 2)


def test_a_redraw_splits_each_pair_into_halves_of_the_same_size():
    halves = []
    run_permutation_tests(
        lambda first: halves.append(first) or {"it": 0.0},
        np.array([[True, False, False]] * 4),
        np.random.default_rng(0),
        50,
    )
    assert len(halves) == 51
    assert np.array_equal(halves[0], [[True, False, False]] * 4)
    drawn = np.array(halves[1:])
    assert (drawn.sum(axis=2) == 1).all()
    assert len(np.unique(drawn, axis=0)) > 20
    assert drawn.mean(axis=(0, 1)) == pytest.approx([1 / 3] * 3, abs=0.1)


def test_p_is_the_share_of_redraws_that_are_as_large_corrected_for_the_number_of_tests():
    """One in six of all cuts of a pair puts the first two together; both pairs: one in 36."""

    def of_both(first):
        return {"both": float(first[:, :2].all())}

    def of_both_and_one(first):
        return of_both(first) | {"one": float(first[0, :2].all())}

    alone = run_permutation_tests(of_both, FIRST, np.random.default_rng(0), 3000)
    assert alone["both"].p == alone["both"].min_p == pytest.approx(1 / 36, abs=0.01)
    tests = run_permutation_tests(of_both_and_one, FIRST, np.random.default_rng(0), 3000)
    assert tests["both"].p == alone["both"].p  # the other is never so small
    # where `both` is smaller, `one` is as small
    assert tests["one"].p == pytest.approx(1 / 6, abs=0.03)


def test_min_p_says_what_a_test_could_have_found():
    noisy = iter(np.random.default_rng(0).random(1000))
    tests = run_permutation_tests(
        lambda first: {"flat": 1.0, "it": next(noisy)}, FIRST, np.random.default_rng(0), 500
    )
    assert tests["flat"].min_p == 1
    assert tests["it"].min_p == pytest.approx(1 / 501)


def test_values_that_differ_by_rounding_count_as_equal():
    steps = iter([1.0, *[1.0 + 1e-12, 1.0 - 1e-12] * 20])
    tests = run_permutation_tests(
        lambda _: {"it": next(steps)}, FIRST, np.random.default_rng(0), 40
    )
    assert tests["it"].p == 1


def test_any_of_many_tests_rejects_at_the_level_where_nothing_is_left():
    generator = np.random.default_rng(0)

    def smallest():
        values = generator.normal(size=(5, 3, 20))
        first = generator.permuted(np.tile(np.arange(20) < 10, (3, 1)), axis=1)
        tests = run_permutation_tests(
            lambda half: dict(enumerate((values * half).sum(axis=(1, 2)))), first, generator, 99
        )
        return min(test.p for test in tests.values())

    rejections = sum(smallest() <= 0.05 for _ in range(300))
    low, high = binom.interval(0.999, 300, 0.05)
    assert low <= rejections <= high
