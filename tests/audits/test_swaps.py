"""Swaps of labels within pairs, and what they say of an attack."""

import numpy as np
import pytest

from munkey.audits.evidence import Roles, roles
from munkey.audits.registry import Estimate
from munkey.audits.swaps import attacked, null, p_value, swaps
from tests.audits.inputs import population


def test_up_to_twelve_pairs_all_swaps_are_tried():
    every = swaps(3, np.random.default_rng(0))
    assert not every[0].any() and len(np.unique(every, axis=0)) == len(every) == 8
    assert len(swaps(12, np.random.default_rng(0))) == 4096


def test_of_more_pairs_swaps_are_drawn_and_the_observed_labels_are_among_them():
    drawn = swaps(40, np.random.default_rng(0), limit=500)
    assert drawn.shape == (500, 40) and not drawn[0].any()
    assert drawn[1:].mean() == pytest.approx(0.5, abs=0.02)
    assert len(swaps(13, np.random.default_rng(0))) == 4096


def test_p_is_the_share_of_swaps_that_are_as_extreme():
    assert p_value(np.array([2.0, 1.0, 3.0, 2.0])) == 0.75
    assert p_value(np.array([2.0, 2.0 - 1e-12, 0.0, 0.0])) == 0.5


def test_a_swap_exchanges_the_roles_of_both_partners_in_its_pair_alone_and_the_statistic_is_computed_anew():
    first, values, seen = np.array([[True, False], [True, True]]), np.arange(1, 9).reshape(4, 2), []
    sums = null(lambda each: seen.append(roles(values, each).deleted.tolist()) or each.sum(), first, None)
    assert sums.tolist() == [3, 1, 3, 1]
    assert seen[0] == [[1, 4], [5, 6]] and seen[1] == [[1, 4], [7, 8]] and seen[2] == [[3, 2], [5, 6]]


def attack(pairs, seed=0):
    phi = pairs.standardized()[:, pairs.halves.pool]
    return attacked(lambda first: roles(phi, first), pairs, np.random.default_rng(seed))


def test_an_attack_pools_the_scores_of_all_models():
    pairs = population(5, 1.0, np.random.default_rng(0))
    deleted, absent = roles(pairs.standardized()[:, pairs.halves.pool], pairs.halves.first)
    found = attack(pairs)
    wins = (deleted.reshape(-1, 1) > absent.reshape(1, -1)).mean()
    assert found.auroc.value == pytest.approx(100 * wins, abs=0.01)
    assert found.auroc.low < found.auroc.value < found.auroc.high
    assert isinstance(found.tpr_1, Estimate) and found.p == 2 / 32  # the most extreme, and its mirror image


def test_p_is_two_sided():
    pairs = population(5, 1.0, np.random.default_rng(0))
    phi = pairs.standardized()[:, pairs.halves.pool]
    turned = attacked(lambda first: Roles(*(-x for x in roles(phi, first))), pairs, np.random.default_rng(0))
    assert turned.auroc.value == pytest.approx(100 - attack(pairs).auroc.value)
    assert turned.p == attack(pairs).p


def test_the_bootstrap_draws_pairs_and_examples():
    """One pair tells all, the others nothing: its weight moves the interval far more than examples do."""
    pairs = population(5, 0.0, np.random.default_rng(0))
    scores = [Roles(*np.random.default_rng(0).normal(size=(2, 5, 120)))]
    scores[0].deleted[0] += 100
    of_pairs = attacked(lambda _: scores[0], pairs, np.random.default_rng(0)).auroc
    assert of_pairs.high - of_pairs.low > 15
    few = Roles(*np.random.default_rng(0).normal(size=(2, 5, 120)))
    few.deleted[:, :3] += 100  # three examples that all pairs agree on
    few.deleted[:, 3:] = few.absent[:, 3:]
    of_examples = attacked(lambda _: few, pairs, np.random.default_rng(0)).auroc
    assert of_examples.high - of_examples.low > 1.5
