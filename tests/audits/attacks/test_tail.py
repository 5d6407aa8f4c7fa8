"""The tail: by hand, and what an average does not show."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from munkey.audits.attacks import residual_share
from munkey.audits.attacks.tail import (
    compute_distances,
    compute_log_scatter,
    compute_signs,
    find_largest_tenth,
    make_memory_statistic,
    make_statistics,
    tail,
)
from munkey.audits.evidence import Halves, Pairs, draw_sham_pairs
from munkey.audits.redraws import run_permutation_tests
from munkey.audits.registry import NoFinding
from tests.audits.inputs import halves, population


def test_samples_differ_and_scatter_as_by_chance_where_nothing_is_left():
    tails = [tail(population(8, 0.0, np.random.default_rng(seed))) for seed in range(20)]
    means = pd.DataFrame(map(vars, tails))[["square", "scatter", "tenth"]].mean()
    assert means.tolist() == pytest.approx([1, 1, 0], abs=0.06)
    covers_zero = [each.tenth_share.low < 0 < each.tenth_share.high for each in tails]
    assert sum(covers_zero) > 14


def test_the_tail_finds_a_tenth_that_is_kept_whole():
    generator = np.random.default_rng(0)
    pairs = population(8, 0.0, generator, effect=2.0)
    is_kept = np.arange(pairs.margins.shape[1]) < 12
    pairs = replace(
        pairs,
        margins=np.where(is_kept & pairs.halves.deleted, pairs.nothing.margins, pairs.margins),
    )
    result = tail(pairs)
    assert result.tenth_share.low > 50
    assert result.tenth == pytest.approx(0.8, abs=0.3)
    assert result.square > 1.5
    assert result.scatter > 1.1


def test_a_tenth_is_chosen_by_the_other_fold():
    """Sample 3 is largest in the second fold, the last pair; sample 0 in the first, which is the first two pairs."""
    signed = np.zeros((3, 10))
    signed[0, 0] = 9
    signed[1, 3] = 5
    signed[2, 3] = 1
    assert find_largest_tenth(signed).ravel().tolist() == [3, 3, 0]
    assert find_largest_tenth(np.zeros((2, 25))).shape == (2, 2)


def test_statistics_by_hand():
    pairs = population(2, 0.0, np.random.default_rng(0))
    first = pairs.halves.first
    means = (compute_signs(first) * pairs.differences).mean(axis=0)
    statistics = make_statistics(pairs)(first)
    assert statistics["square"] == pytest.approx(np.mean(means**2))
    assert statistics["few"] == pytest.approx(np.mean(means**3))
    turned = make_statistics(pairs)(~first)  # all roles exchanged: squares stay, cubes turn
    assert (turned["square"], turned["few"]) == pytest.approx(
        (statistics["square"], -statistics["few"])
    )


def test_the_level_finds_a_mark_of_each_model_that_cancels_between_partners():
    honest = population(4, 0.0, np.random.default_rng(0))
    mark = np.resize([0.5, -0.5], 8)[:, None] * honest.halves.deleted
    marked = make_statistics(replace(honest, margins=honest.margins + mark))(honest.halves.first)
    plain = make_statistics(honest)(honest.halves.first)
    assert marked["level"] > 3 * plain["level"]
    assert marked["square"] == pytest.approx(plain["square"], rel=0.3)


def by_hand(first, scores, nothing=None):
    """Pairs with these scores of a pool of two samples."""
    deleted = np.zeros((4, 5), dtype=bool)
    deleted[::2, :2] = first
    deleted[1::2, :2] = ~first
    halves = Halves(
        deleted, deleted.reshape(2, 2, 5)[:, ::-1].reshape(4, 5), np.array([False] * 2 + [True] * 3)
    )
    pairs = Pairs(np.zeros((4, 5)), halves, nothing)
    pairs.__dict__["scores"] = np.array(scores)
    pairs.__dict__["differences"] = pairs.scores[::2] - pairs.scores[1::2]
    return pairs


FIRST = np.array([[True, False], [False, True]])


def test_level_and_shape_by_hand():
    """Two pairs, two samples. Usual scores are the other pair's never-seen ones; distances by hand below."""
    pairs = by_hand(FIRST, [[5.0, 1.0], [2.0, 7.0], [0.0, 3.0], [4.0, 6.0]])
    # never seen: [2, 1] and [0, 6]; deleted: [5, 7] and [4, 3]; so distances are [2, -5], [-2, 5] and [5, 1], [2, 2]
    statistics = make_statistics(pairs)(FIRST)
    assert statistics["level"] == pytest.approx(
        (5 + 5) ** 2 + (1 - 2) ** 2 + (2 + 2) ** 2 + (2 - 5) ** 2
    )
    # the pairs are [2, 5] apart where never seen, [1, 4] where deleted: below 2
    assert statistics["shape"] == 0.5


def test_memory_by_hand():
    """Left: [3, 6] and [4, -3]. Doing nothing leaves [5, 8] and [6, 1]; of each pair the other's counts, less its mean:
    [2.5, -2.5] and [-1.5, 1.5]. Redrawn so that all roles change, what is left turns, and [2, 2] and [2, 4] were added.
    """
    nothing = by_hand(FIRST, [[7.0, 1.0], [2.0, 9.0], [0.0, 7.0], [6.0, 6.0]])
    pairs = by_hand(FIRST, [[5.0, 1.0], [2.0, 7.0], [0.0, 3.0], [4.0, 6.0]], nothing)
    covariance = make_memory_statistic(pairs)
    assert covariance(FIRST) == pytest.approx(abs((2.5 * 3 - 2.5 * 6) + (-1.5 * 4 - 1.5 * 3)) / 4)
    # put there: [2 - 3, 2 - 6] and [2 - 4, 4 + 3]; of the other, less its mean: [-4.5, 4.5] and [1.5, -1.5]
    assert covariance(~FIRST) == pytest.approx(abs((4.5 * 3 - 4.5 * 6) + (-1.5 * 4 - 1.5 * 3)) / 4)


def of_memory(pairs, remaining, anew, seed, size=60):
    """Of which training added much to a few: `left` of each memory is kept, less its mean. anew: luck of its own."""
    generator = np.random.default_rng(seed)
    swapped_halves = halves(pairs, generator, pool=size, test=200)
    shape = swapped_halves.deleted.shape
    usual = generator.normal(size=shape[1])
    never = usual + 0.3 * generator.normal(size=shape)
    added = generator.gamma(0.25, 2.0, shape[1])
    unlearned = usual + 0.3 * generator.normal(size=shape) if anew else never
    residue = remaining * (added - added[swapped_halves.pool].mean())
    nothing = Pairs(np.where(swapped_halves.deleted, never + added, never), swapped_halves)
    return Pairs(
        np.where(swapped_halves.deleted, unlearned + residue, unlearned), swapped_halves, nothing
    )


def p_of(pairs, statistic, redraws=99):
    generator = np.random.default_rng(1)
    return run_permutation_tests(
        lambda first: {"": statistic(first)}, pairs.halves.first, generator, redraws
    )[""].p


@pytest.mark.parametrize("anew", [False, True])
def test_memory_is_rejected_no_more_often_than_the_level_where_nothing_is_left(anew):
    """Of 120 tests at 5%, 13 or more would be found once in 100 by chance."""
    rejections = 0
    for seed in range(120):
        pairs = of_memory(3, 0.0, anew, seed)
        rejections += p_of(pairs, make_memory_statistic(pairs)) <= 0.05
    assert rejections < 13


def test_memory_finds_a_residue_whose_mean_was_subtracted():
    by_memory = 0
    by_share = 0
    for seed in range(10):
        pairs = of_memory(3, 0.3, False, seed)
        shares = residual_share.make_statistics(pairs)
        by_memory += p_of(pairs, make_memory_statistic(pairs)) <= 0.05
        by_share += p_of(pairs, lambda first, shares=shares: shares(first)["share"]) <= 0.05
    assert by_memory >= 8
    assert by_share <= 3


def test_memory_needs_the_halves_of_doing_nothing():
    pairs = population(4, 0.0, np.random.default_rng(0))
    assert make_memory_statistic(draw_sham_pairs(pairs, np.random.default_rng(0))) is None
    assert "memory" not in make_statistics(draw_sham_pairs(pairs, np.random.default_rng(0)))(
        pairs.halves.first[:, :80]
    )


def test_scatter_by_hand():
    """Never seen: 1 and 3. Deleted: 5 and 0; squared distances to the other's: 4 and 4, (5 - 3)² and (0 - 1)²."""
    scores = np.array([[5.0], [1.0], [3.0], [0.0]])
    assert compute_log_scatter(
        compute_distances(scores, np.array([[True], [False]]))
    ) == pytest.approx(np.log(2.5 / 4), abs=1e-4)
    pairs = population(4, 0.0, np.random.default_rng(0))
    assert make_statistics(pairs)(pairs.halves.first)["scatter"] >= 0


def test_one_pair_is_refused_and_two_are_not():
    assert math.isfinite(tail(population(2, 1.0, np.random.default_rng(0))).tenth)
    refused = tail(population(1, 1.0, np.random.default_rng(0)))
    assert isinstance(refused, NoFinding)
    assert "2 pairs" in refused.why
