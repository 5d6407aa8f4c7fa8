"""The tail: by hand, and what an average does not show."""

import math
from dataclasses import replace

import numpy as np
import pytest

from munkey.audits.attacks.tail import distances, most, scatter, signs, statistics, tail
from munkey.audits.registry import Refused
from tests.audits.inputs import population


def test_where_nothing_is_left_samples_differ_and_scatter_as_by_chance():
    found = [tail(population(8, 0.0, np.random.default_rng(seed))) for seed in range(20)]
    squares, tenths, scattered = (
        np.mean([getattr(each, name) for each in found]) for name in ("square", "tenth", "scatter")
    )
    assert (squares, scattered) == pytest.approx((1, 1), abs=0.06) and tenths == pytest.approx(0, abs=0.06)
    assert sum(each.tenth_share.low < 0 < each.tenth_share.high for each in found) > 14


def test_of_a_tenth_that_is_kept_whole_the_tail_says_so():
    generator = np.random.default_rng(0)
    pairs = population(8, 0.0, generator, effect=2.0)
    kept = np.arange(pairs.margins.shape[1]) < 12
    pairs = replace(pairs, margins=np.where(kept & pairs.halves.deleted, pairs.nothing.margins, pairs.margins))
    found = tail(pairs)
    assert found.tenth_share.low > 50 and found.tenth == pytest.approx(0.8, abs=0.3)
    assert found.square > 1.5 and found.scatter > 1.1


def test_a_tenth_is_chosen_by_the_other_fold():
    """Sample 3 is largest in the second fold, the last pair; sample 0 in the first, which is the first two pairs."""
    signed = np.zeros((3, 10))
    signed[0, 0], signed[1, 3], signed[2, 3] = 9, 5, 1
    assert most(signed).ravel().tolist() == [3, 3, 0]
    assert most(np.zeros((2, 25))).shape == (2, 2)


def test_statistics_by_hand():
    pairs = population(2, 0.0, np.random.default_rng(0))
    first = pairs.halves.first
    means = (signs(first) * pairs.apart).mean(axis=0)
    found = statistics(pairs)(first)
    assert found["square"] == pytest.approx(np.mean(means**2)) and found["few"] == pytest.approx(np.mean(means**3))
    turned = statistics(pairs)(~first)  # all roles exchanged: squares stay, cubes turn
    assert (turned["square"], turned["few"]) == pytest.approx((found["square"], -found["few"]))


def test_a_mark_of_each_model_that_cancels_between_partners_is_in_the_level():
    honest = population(4, 0.0, np.random.default_rng(0))
    mark = np.resize([0.5, -0.5], 8)[:, None] * honest.halves.deleted
    marked = statistics(replace(honest, margins=honest.margins + mark))(honest.halves.first)
    plain = statistics(honest)(honest.halves.first)
    assert marked["level"] > 3 * plain["level"] and marked["square"] == pytest.approx(plain["square"], rel=0.3)


def test_level_and_shape_by_hand():
    """Two pairs, two samples. Usual scores are the other pair's never-seen ones; distances by hand below."""
    pairs = population(2, 0.0, np.random.default_rng(0))
    first = np.array([[True, False], [False, True]])
    pairs.__dict__["scores"] = np.array([[5.0, 1.0], [2.0, 7.0], [0.0, 3.0], [4.0, 6.0]])
    pairs.__dict__["apart"] = pairs.scores[::2] - pairs.scores[1::2]
    # never seen: [2, 1] and [0, 6]; deleted: [5, 7] and [4, 3]; so distances are [2, -5], [-2, 5] and [5, 1], [2, 2]
    found = statistics(pairs)(first)
    assert found["level"] == pytest.approx((5 + 5) ** 2 + (1 - 2) ** 2 + (2 + 2) ** 2 + (2 - 5) ** 2)
    assert found["shape"] == 0.5  # below 1: half of those never seen, and none of those deleted


def test_scatter_is_about_what_other_pairs_that_never_saw_the_sample_say():
    """Never seen: 1 and 3. Deleted: 5 and 0; squared distances to the other's: 4 and 4, (5 - 3)² and (0 - 1)²."""
    scores = np.array([[5.0], [1.0], [3.0], [0.0]])
    assert scatter(distances(scores, np.array([[True], [False]]))) == pytest.approx(np.log(2.5 / 4), abs=1e-4)
    assert (
        statistics(population(4, 0.0, np.random.default_rng(0)))(
            population(4, 0.0, np.random.default_rng(0)).halves.first
        )["scatter"]
        >= 0
    )


def test_one_pair_is_refused_and_two_are_not():
    assert math.isfinite(tail(population(2, 1.0, np.random.default_rng(0))).tenth)
    refused = tail(population(1, 1.0, np.random.default_rng(0)))
    assert isinstance(refused, Refused) and "2 pairs" in refused.why
