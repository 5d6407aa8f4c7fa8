"""Distances to the oracle beside the floor, by hand."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from munkey.audits.attacks.distance import compute_jensen_shannon, distance
from munkey.audits.evidence import OracleComparison
from munkey.audits.registry import NoFinding

P = np.array([[0.5, 0.5], [0.9, 0.1]])
Q = np.array([[1.0 - 1e-12, 1e-12], [0.9, 0.1]])


def test_a_divergence_by_hand():
    """(1/2, 1/2) and (1, 0) have the mean (3/4, 1/4)."""
    half = 0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 0.25)
    np.testing.assert_allclose(
        compute_jensen_shannon(np.log(P), np.log(Q)), [(half + np.log(4 / 3)) / 2, 0], atol=1e-9
    )


def test_divergences_are_the_squares_of_scipys_and_at_most_log_2():
    p, q = np.random.default_rng(0).dirichlet(np.ones(4), (2, 5))
    np.testing.assert_allclose(
        compute_jensen_shannon(np.log(p), np.log(q)), jensenshannon(p, q, axis=1) ** 2
    )
    certain = np.array([[0.0, -800.0]])
    assert compute_jensen_shannon(certain, certain[:, ::-1]) == pytest.approx(np.log(2))


def test_the_distance_is_the_mean_over_models_and_oracles_and_the_floor_over_pairs_of_oracles():
    logits = np.random.default_rng(0).normal(size=(5, 40, 3)).astype(np.float32)
    result = distance(OracleComparison(logits[:2], logits[2:]), np.random.default_rng(0))
    p = np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum(axis=2, keepdims=True)

    def mean(couples):
        return np.mean([jensenshannon(p[one], p[other], axis=1) ** 2 for one, other in couples])

    assert result.value.value == pytest.approx(mean(product((0, 1), (2, 3, 4))))
    assert result.floor.value == pytest.approx(mean(combinations((2, 3, 4), 2)))
    assert result.ratio.value == pytest.approx(result.value.value / result.floor.value)
    for estimate in (result.value, result.floor, result.ratio):
        assert estimate.low < estimate.value < estimate.high


def test_value_and_floor_are_measured_on_the_same_drawn_samples():
    """Two oracles against themselves: in every sample, the mean over four couples is half of the floor."""
    oracles = np.random.default_rng(2).normal(size=(2, 40, 3))
    ratio = distance(OracleComparison(oracles, oracles), np.random.default_rng(0)).ratio
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((0.5, 0.5, 0.5))


def test_one_oracle_has_no_floor():
    refused = distance(
        OracleComparison(np.zeros((1, 2, 2)), np.zeros((1, 2, 2))), np.random.default_rng(0)
    )
    assert isinstance(refused, NoFinding)
    assert "2 oracles" in refused.why


def test_equal_oracles_have_no_floor():
    logits = np.random.default_rng(0).normal(size=(40, 3))
    alike = np.stack([logits, logits + 1e-9])
    refused = distance(
        OracleComparison(logits[None] + 0.1 * np.arange(3), alike), np.random.default_rng(0)
    )
    assert isinstance(refused, NoFinding)
    assert "predict the same" in refused.why
