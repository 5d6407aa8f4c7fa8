"""Tests by redrawn halves: by hand, in how often they are wrong, and where they can find nothing."""

import numpy as np
import pytest
from scipy.stats import binom

from munkey.audits.redraws import run_permutation_tests

FIRST = np.array([[True, True, False, False]] * 2)


def test_a_redraw_cuts_each_pair_anew_into_halves_as_large():
    seen = []
    run_permutation_tests(
        lambda first: seen.append(first) or {"it": 0.0},
        np.array([[True, False, False]] * 4),
        np.random.default_rng(0),
        50,
    )
    assert np.array_equal(seen[0], [[True, False, False]] * 4) and len(seen) == 51
    drawn = np.array(seen[1:])
    assert (drawn.sum(axis=2) == 1).all() and len({each.tobytes() for each in drawn}) > 20
    assert drawn.mean(axis=(0, 1)) == pytest.approx([1 / 3] * 3, abs=0.1)


def test_p_is_the_share_of_redraws_that_are_as_large_and_corrected_by_the_smallest_of_all():
    """One in six of all cuts of a pair puts the first two together; both pairs: one in 36."""
    both = {
        "both": lambda first: float(first[:, :2].all()),
        "one": lambda first: float(first[0, :2].all()),
    }
    alone = run_permutation_tests(
        lambda first: {"both": both["both"](first)}, FIRST, np.random.default_rng(0), 3000
    )
    assert alone["both"].p == alone["both"].min_p == pytest.approx(1 / 36, abs=0.01)
    found = run_permutation_tests(
        lambda first: {name: each(first) for name, each in both.items()},
        FIRST,
        np.random.default_rng(0),
        3000,
    )
    assert found["both"].p == alone["both"].p  # the other is never so small
    # where `both` is smaller, `one` is as small
    assert found["one"].p == pytest.approx(1 / 6, abs=0.03)


def test_what_could_not_have_been_found_is_known():
    noisy = iter(np.random.default_rng(0).random(1000))
    found = run_permutation_tests(
        lambda first: {"flat": 1.0, "it": next(noisy)}, FIRST, np.random.default_rng(0), 500
    )
    assert found["flat"].min_p == 1 and found["it"].min_p == pytest.approx(1 / 501)


def test_values_that_rounding_parts_count_as_equal():
    steps = iter([1.0, *[1.0 + 1e-12, 1.0 - 1e-12] * 20])
    assert (
        run_permutation_tests(lambda _: {"it": next(steps)}, FIRST, np.random.default_rng(0), 40)[
            "it"
        ].p
        == 1
    )


def test_where_nothing_is_left_any_of_many_tests_finds_something_at_the_level():
    generator = np.random.default_rng(0)

    def smallest():
        values = generator.normal(size=(5, 3, 20))
        first = np.array([generator.permutation(20) < 10 for _ in range(3)])
        found = run_permutation_tests(
            lambda each: dict(enumerate((values * each).sum(axis=(1, 2)))), first, generator, 99
        )
        return min(each.p for each in found.values())

    low, high = binom.interval(0.999, 300, 0.05)
    assert low <= sum(smallest() <= 0.05 for _ in range(300)) <= high
