"""Pools of the worst case: who is hardest for the nearest keys, and which labels are wrong."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munkey.audits.pools import (
    Members,
    compute_vote_shares,
    draw_half,
    draw_hardest,
    draw_wrong_labels,
    require_valid_size,
)
from munkey.core.ids import NO_NEIGHBOR
from munkey.core.randomness import Stage
from munkey.data.prepared import Dataset

MEMBERS = Members(np.array([3, 5, 8, 13]), np.array([0, 0, 1, 1]))
STAGE = Stage("digits", "audit")


def test_votes_are_the_share_of_neighbors_with_the_samples_own_label():
    neighbors = np.array([[5, 8], [8, 13], [13, NO_NEIGHBOR], [NO_NEIGHBOR, NO_NEIGHBOR]])
    assert compute_vote_shares(MEMBERS, neighbors).tolist() == [0.5, 0.0, 1.0, 0.0]


def test_the_hardest_are_those_with_the_fewest_votes_in_each_class():
    """Class 1 is easy throughout, and still gives its share."""
    members = Members(np.arange(20, 40), np.repeat([0, 1], 10))
    votes = np.concatenate([np.linspace(0, 0.5, 10)[::-1], np.linspace(0.6, 1, 10)])
    assert draw_hardest(members, votes, 0.2, STAGE).tolist() == [28, 29, 30, 31]


def test_samples_with_equal_votes_are_drawn_at_random_and_repeatably():
    members = Members(np.arange(40), np.repeat([0, 1], 20))
    votes = np.zeros(40)
    first = draw_hardest(members, votes, 0.5, STAGE)
    again = draw_hardest(members, votes, 0.5, STAGE)
    other = draw_hardest(members, votes, 0.5, STAGE / "other")
    assert first.tolist() == again.tolist() != other.tolist()
    assert first.tolist() != [*range(10), *range(20, 30)]


def test_a_pool_that_would_be_a_whole_class_is_refused():
    with pytest.raises(ValueError, match="leaves none of class"):
        draw_hardest(Members(np.arange(10), np.array([0] * 9 + [1])), np.zeros(10), 0.9, STAGE)


@given(st.integers(1, 20), st.integers(0, 99))
def test_the_two_halves_split_the_pool(pairs, seed):
    pool = np.arange(2 * pairs) * 3
    one = draw_half(pool, 0, Stage(seed))
    other = draw_half(pool, 1, Stage(seed))
    assert len(one) == len(other) == pairs
    assert set(one) | set(other) == set(pool)
    for half in (one, other):
        assert (np.diff(half) > 0).all()


def test_one_of_an_odd_number_of_hardest_samples_is_left_out():
    members = Members(np.arange(40), np.repeat([0, 1], 20))
    votes = np.zeros(40)
    assert len(draw_hardest(members, votes, 0.35, STAGE)) == 14
    assert len(draw_hardest(members, votes, 0.375, STAGE)) == 14


@pytest.mark.parametrize("size", [1, 3])
def test_a_pool_without_equal_halves_is_refused(size):
    with pytest.raises(ValueError, match="equal division"):
        draw_half(np.arange(size), 0, STAGE)


@pytest.mark.parametrize(
    ("pool", "tests", "words"),
    [
        (2, 8, r"audit\.pool: 2 of 40 .*needs 4"),
        (8, 8, r"pool of 8, 32 of 40 .*keys\.depth is 33"),
        (4, 7, r"7 test samples; .*needs 8"),
        (4, 8, None),
        (7, 8, None),
    ],
)
def test_a_pool_that_cannot_be_audited_is_refused_before_any_training(pool, tests, words):
    splits = np.array(["train"] * 40 + ["test"] * tests)
    count = len(splits)
    dataset = Dataset(
        np.zeros((count, 1, 1, 3), np.uint8),
        np.arange(count),
        np.zeros(count, int),
        splits,
        ["a", "b"],
    )
    with pytest.raises(ValueError, match=words) if words else nullcontext():
        require_valid_size(pool, dataset, 33)


@given(st.integers(2, 6), st.integers(0, 99))
def test_only_labels_of_the_pool_are_wrong(classes, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, 50)
    pool = np.flatnonzero(rng.random(50) < 0.3)
    wrong = draw_wrong_labels(labels, pool, classes, rng)
    assert np.flatnonzero(wrong != labels).tolist() == pool.tolist()
    assert 0 <= wrong.min() <= wrong.max() < classes


def test_every_wrong_class_is_equally_likely():
    wrong = draw_wrong_labels(
        np.zeros(3000, dtype=int), np.arange(3000), 4, np.random.default_rng(0)
    )
    counts = np.bincount(wrong, minlength=4)
    assert counts[0] == 0
    assert (abs(counts[1:] - 1000) < 5 * np.sqrt(3000 * 2 / 9)).all()
