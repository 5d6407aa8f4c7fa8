"""Who saw what: only halves that partners swap are accepted, and a sham is made of what nobody saw."""

import numpy as np
import pytest
from scipy.stats import norm

from munkey.audits.evidence import Halves, Pairs, draw_halves, draw_sham_pairs, split_by_role
from tests.audits.inputs import POOL, TEST, population

DELETED = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0]], dtype=bool)
ABSENT = DELETED[[1, 0, 3, 2]]
REST = np.array([0, 0, 0, 1, 0], dtype=bool)


def test_the_pool_is_all_samples_that_any_model_deleted_and_first_is_the_half_of_the_first_partner():
    halves = Halves(DELETED, ABSENT, REST)
    np.testing.assert_array_equal(halves.pool, [True, True, True, False, False])
    np.testing.assert_array_equal(halves.first, [[True, True, False], [True, False, False]])


@pytest.mark.parametrize(
    ("deleted", "absent", "test", "words"),
    [
        (DELETED[:3], ABSENT[:3], REST, "split into pairs"),
        (DELETED[:0], ABSENT[:0], REST, "split into pairs"),
        (DELETED, DELETED, REST, "partner never saw"),
        (DELETED, np.zeros_like(DELETED), REST, "partner never saw"),
        (DELETED[[0, 1, 2, 2]], DELETED[[1, 0, 2, 2]], REST, "same pool"),
        (DELETED[[0, 1, 2, 1]], DELETED[[1, 0, 1, 2]], REST, "same pool"),
        (DELETED, ABSENT, ~REST, "are test samples"),
        (
            np.array([[1, 1], [0, 0]], bool),
            np.array([[0, 0], [1, 1]], bool),
            np.zeros(2, bool),
            "both halves",
        ),
    ],
)
def test_models_that_do_not_swap_halves_of_one_pool_are_refused(deleted, absent, test, words):
    with pytest.raises(ValueError, match=words):
        Halves(deleted, absent, test)


def test_margins_of_another_shape_than_the_halves_are_refused():
    with pytest.raises(ValueError, match="shape"):
        Pairs(np.zeros((4, 4)), Halves(DELETED, ABSENT, REST))


def test_roles_split_values_by_whether_the_model_deleted_the_sample():
    first = np.array([[True, False], [False, True]])
    deleted, absent = split_by_role(np.array([[1, 2], [3, 4], [5, 6], [7, 8]]), first)
    np.testing.assert_array_equal(deleted, [[1, 4], [7, 6]])
    np.testing.assert_array_equal(absent, [[3, 2], [5, 8]])


def test_random_halves_are_drawn_for_every_pair_and_repeatable():
    members = np.arange(20) < 11
    halves = draw_halves(members, ~members, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(halves.pool, members)
    assert halves.first.sum(axis=1).tolist() == [5, 5, 5]
    assert len(np.unique(halves.first, axis=0)) == 3
    again = draw_halves(members, ~members, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(halves.deleted, again.deleted)


def test_a_sham_pool_is_test_samples_and_the_rest_of_them_stay_test_samples():
    pairs = population(3, 0.5, np.random.default_rng(0))
    sham = draw_sham_pairs(pairs, np.random.default_rng(1))
    assert sham.margins is pairs.margins
    assert sham.nothing is pairs.nothing
    assert sham.halves.pool.sum() == TEST // 2 < POOL  # as many as there are
    assert not (sham.halves.pool & ~pairs.halves.test).any()
    np.testing.assert_array_equal(sham.halves.pool | sham.halves.test, pairs.halves.test)
    assert draw_sham_pairs(pairs.nothing, np.random.default_rng(1)).nothing is pairs.nothing


def test_a_copied_pair_is_refused_even_with_its_partners_exchanged():
    halves = draw_halves(np.arange(60) < 40, np.arange(60) >= 40, 3, np.random.default_rng(0))
    for order in ([0, 1, 2, 3, 2, 3], [0, 1, 2, 3, 1, 0]):
        with pytest.raises(ValueError, match="have the same halves"):
            Halves(halves.deleted[order], halves.absent[order], halves.test)
    small = Halves(DELETED[[0, 1, 0, 1]], ABSENT[[0, 1, 0, 1]], REST)  # of 3 samples chance does it
    assert small.pool.sum() == 3


def test_scores_are_ranks_among_the_models_own_test_samples_and_differences_have_no_level():
    pairs = population(2, 0.5, np.random.default_rng(0))
    halves = pairs.halves
    test_margins = pairs.margins[:, None, halves.test]
    ranks = (test_margins < pairs.margins[:, halves.pool, None]).sum(axis=2)
    np.testing.assert_array_equal(pairs.pool_counts, ranks)
    np.testing.assert_allclose(pairs.scores, norm.ppf((ranks + 0.5) / (TEST + 1)))
    level = (pairs.scores[2] - pairs.scores[3]).mean()
    np.testing.assert_allclose(pairs.differences[1], pairs.scores[2] - pairs.scores[3] - level)
