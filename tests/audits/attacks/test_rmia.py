"""RMIA: by hand, against loops that name the models, and in how often it is wrong."""

from dataclasses import replace

import numpy as np
import pytest

from munkey.audits.attacks.rmia import compute_ratios, make_scores, rmia
from munkey.audits.evidence import Halves, Pairs
from munkey.audits.registry import NoFinding
from tests.audits.inputs import population


def by_loops(pairs, gamma, slope):
    """The scores of samples that their model deleted, and that it never saw."""
    pool = np.flatnonzero(pairs.halves.pool)
    test = np.flatnonzero(pairs.halves.test)
    scores = ([], [])
    test_margins = pairs.margins[:, None, test]
    smaller = (test_margins < pairs.margins[:, :, None]).sum(axis=2)
    equal = (test_margins == pairs.margins[:, :, None]).sum(axis=2)
    confidence = (smaller + equal / 2 + 0.5) / (len(test) + 1)

    def ratio(target, sample):
        out = []
        for model in range(len(confidence)):
            if model // 2 != target // 2 and not pairs.halves.deleted[model, sample]:
                out.append(confidence[model, sample])
        return confidence[target, sample] / (((1 + slope) * np.mean(out) + 1 - slope) / 2)

    for target in range(len(confidence)):
        for sample in pool:
            beaten = [ratio(target, sample) / ratio(target, other) >= gamma for other in test]
            scores[not pairs.halves.deleted[target, sample]].append(np.mean(beaten))
    return scores


def small(pairs=3):
    deleted = np.zeros((2 * pairs, 10), bool)
    deleted[::2, :2] = deleted[1::2, 2:4] = True
    margins = np.random.default_rng(0).normal(size=deleted.shape) + deleted
    return Pairs(
        margins,
        Halves(deleted, deleted.reshape(pairs, 2, 10)[:, ::-1].reshape(-1, 10), np.arange(10) > 4),
    )


def test_a_ratio_by_hand():
    """Confidence 0.8 and 0.4 of two partners, 0.5 elsewhere: p(x) = (1.3 * 0.5 + 0.7) / 2."""
    np.testing.assert_allclose(
        compute_ratios(np.array([[0.8], [0.4]]), np.array([[0.5]]), 0.3),
        [[0.8 / 0.675], [0.4 / 0.675]],
    )
    np.testing.assert_allclose(
        compute_ratios(np.array([[0.8], [0.4]]), np.array([[0.5]]), 1.0), [[1.6], [0.8]]
    )


@pytest.mark.parametrize(("gamma", "slope"), [(1.0, 0.3), (2.0, 1.0), (1.23, 0.6)])
def test_scores_are_those_of_loops_over_models_and_test_samples(gamma, slope):
    pairs = small()
    roles = make_scores(pairs, gamma, slope)(pairs.halves.first)
    deleted, absent = by_loops(pairs, gamma, slope)
    assert len(np.unique(deleted + absent)) > 2
    np.testing.assert_allclose(sorted(roles.deleted.ravel()), sorted(deleted))
    np.testing.assert_allclose(sorted(roles.absent.ravel()), sorted(absent))


def test_a_score_counts_test_samples_with_an_equal_ratio():
    # 4 of 5 test samples are as sure as the pool
    margins = np.tile([0.7] * 5 + [0.7, 0.7, 0.7, 0.7, 0.9], (6, 1))
    pairs = replace(small(), margins=margins)
    np.testing.assert_allclose(make_scores(pairs)(pairs.halves.first).deleted, 0.8)
    assert (make_scores(pairs, gamma=2)(pairs.halves.first).deleted == 0).all()


def test_auroc_is_above_50_for_a_residue_and_below_for_over_forgetting():
    residue = rmia(population(6, 1.0, np.random.default_rng(0)), np.random.default_rng(1))
    assert residue.auroc.low > 55
    over_forgetting = population(6, -1.0, np.random.default_rng(0))
    assert rmia(over_forgetting, np.random.default_rng(1)).auroc.high < 45


def test_one_pair_is_refused():
    refused = rmia(population(1, 1.0, np.random.default_rng(0)), np.random.default_rng(0))
    assert isinstance(refused, NoFinding)
    assert "2 pairs" in refused.why
