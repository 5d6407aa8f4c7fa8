"""KLoM: by hand, as the paper's code does it, and its floor."""

import numpy as np
import pytest

from munkey.audits.attacks.klom import binned, divergences, klom
from munkey.audits.registry import Refused
from munkey.audits.swaps import null
from tests.audits.inputs import population


def test_bins_are_alike_between_a_samples_smallest_and_largest_margin():
    margins = np.array([[0.0, -1.0], [0.99, -1.0], [1.0, -1.0], [19.5, -1.0], [20.0, -1.0]])
    np.testing.assert_array_equal(binned(margins), [[0, 0], [0, 0], [1, 0], [19, 0], [19, 0]])


def test_margins_are_clipped():
    np.testing.assert_array_equal(
        binned(np.array([[-1e6], [-100.0], [0.0], [100.0], [1e9]])).ravel(), [0, 0, 10, 19, 19]
    )


def test_divergences_by_hand():
    """Deleted 0, 0 and never seen 0, 1: log 2. Deleted 3, 4 and never seen 4, 4: bin 3 has a share of 0.00001 there."""
    bins = np.array([[0, 3], [0, 4], [0, 4], [1, 4]])
    first = np.array([[True, True], [True, True]])
    by_hand = [np.log(2), 0.5 * np.log(0.5 / (1e-5 / 1.00001)) + 0.5 * np.log(0.5 * 1.00001)]
    np.testing.assert_allclose(divergences(bins, first), by_hand, rtol=1e-9)


def test_it_is_the_divergence_of_deleted_from_never_seen_and_not_the_other_way():
    bins = np.array([[0], [0], [0], [1]])
    first = np.array([[True], [True]])
    assert divergences(bins, first) == pytest.approx(np.log(2))
    assert divergences(bins, ~first) == pytest.approx(0.5 * np.log(0.5 * 1.00001) + 0.5 * np.log(0.5 * 1.00001 / 1e-5))


def test_the_mean_over_the_pool_is_above_its_floor_where_anything_is_left():
    pairs = population(8, 1.0, np.random.default_rng(0), effect=3.0)
    found = klom(pairs, np.random.default_rng(0))
    bins = binned(pairs.margins[:, pairs.halves.pool])
    every = null(lambda first: float(divergences(bins, first).mean()), pairs.halves.first, np.random.default_rng(0))
    assert found.value == pytest.approx(divergences(bins, pairs.halves.first).mean())
    assert found.floor == pytest.approx(every[1:].mean(), rel=1e-9)
    assert found.value > found.floor > 0 and found.p <= 2 / 256


def test_fewer_than_16_models_are_refused():
    refused = klom(population(7, 0.5, np.random.default_rng(0)), np.random.default_rng(0))
    assert isinstance(refused, Refused) and "16 models" in refused.why and "14" in refused.why
