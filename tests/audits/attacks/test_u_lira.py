"""U-LiRA: by hand, against loops that name the models, and in how often it is wrong."""

from dataclasses import replace

import numpy as np
from scipy.stats import norm

from munkey.audits.attacks.u_lira import compute_log_ratios, u_lira
from munkey.audits.evidence import Pairs
from munkey.audits.registry import NoFinding
from tests.audits.inputs import halves, population


def by_loops(phi, first):
    """(S, n): log-likelihood ratio of every model, fitted to the models that are neither it nor its partner."""
    deleted = np.stack([first, ~first], axis=1).reshape(phi.shape)
    scores = np.empty_like(phi)
    for target in range(len(phi)):
        others = [model for model in range(len(phi)) if model // 2 != target // 2]
        means = np.empty((2, phi.shape[1]))
        squares = []
        for sample in range(phi.shape[1]):
            for kind in (0, 1):
                margins = phi[others, sample][deleted[others, sample] == bool(kind)]
                means[kind, sample] = np.mean(margins)
                squares += list((margins - np.mean(margins)) ** 2)
        pairs = len(others) // 2
        sd = np.sqrt(sum(squares) / (2 * phi.shape[1] * (pairs - 1)))
        scores[target] = norm.logpdf(phi[target], means[1], sd) - norm.logpdf(
            phi[target], means[0], sd
        )
    return scores


def test_one_ratio_by_hand():
    """Others deleted it at 1 and 3, never saw it at -1 and 1: means 2 and 0, variance 2. Asked of 2 and of 0.5."""
    phi = np.array([[2.0], [0.5], [1.0], [-1.0], [1.0], [3.0]])
    first = np.array([[True], [True], [False]])
    ratios = compute_log_ratios(phi, first)
    np.testing.assert_allclose(
        [ratios.deleted[0, 0], ratios.absent[0, 0]], [(4 - 0) / 4, (0.25 - 2.25) / 4]
    )


def test_ratios_are_those_of_gaussians_fitted_without_the_target_and_its_partner():
    random = np.random.default_rng(0)
    phi = random.normal(size=(8, 6))
    first = random.random((4, 6)) < 0.5
    ratios = compute_log_ratios(phi, first)
    expected = by_loops(phi, first)
    np.testing.assert_allclose(
        ratios.deleted, np.where(first, expected[::2], expected[1::2]), rtol=1e-6
    )
    np.testing.assert_allclose(
        ratios.absent, np.where(first, expected[1::2], expected[::2]), rtol=1e-6
    )


def test_a_residue_is_found_in_either_direction():
    for remaining in (1.0, -1.0):
        attack = u_lira(
            population(6, remaining, np.random.default_rng(0)), np.random.default_rng(1)
        )
        assert attack.auroc.low > 55
        assert attack.tpr_5.value > 8


def test_margins_are_standardized_before_models_are_compared():
    pairs = population(4, 0.5, np.random.default_rng(0))
    scaled = replace(
        pairs, margins=pairs.margins * np.random.default_rng(1).uniform(0.2, 5, (8, 1)) + 3
    )
    assert u_lira(scaled, np.random.default_rng(1)) == u_lira(pairs, np.random.default_rng(1))


def test_equal_models_have_an_auroc_of_50():
    swapped_halves = halves(4, np.random.default_rng(0))
    pairs = Pairs(
        np.tile(np.random.default_rng(1).normal(size=swapped_halves.deleted.shape[1]), (8, 1)),
        swapped_halves,
    )
    attack = u_lira(pairs, np.random.default_rng(0))
    assert attack.auroc.value == 50
    # their variance is 0
    np.testing.assert_array_equal(compute_log_ratios(np.ones((8, 3)), np.ones((4, 3), bool)), 0)


def test_two_pairs_are_refused():
    refused = u_lira(population(2, 1.0, np.random.default_rng(0)), np.random.default_rng(0))
    assert isinstance(refused, NoFinding)
    assert "3 pairs" in refused.why
