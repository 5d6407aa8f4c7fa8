"""Strata: by hand, their level on noise, and what the average hides."""

from dataclasses import replace

import numpy as np
import pytest

from munkey.audits.attacks.strata import Strata, compute_ranks, strata
from munkey.audits.evidence import Pairs, average_other_fold
from munkey.audits.registry import NoFinding
from tests.audits.inputs import halves, population


def _worlds(seeds: int, left: float = 0.0, effect: float = 1.0) -> list[Strata]:
    return [
        strata(population(8, left, np.random.default_rng(seed), effect)) for seed in range(seeds)
    ]


def test_samples_are_sorted_by_what_the_other_fold_says():
    differences = np.array([[9.0, 0, 1], [1, 2, 3], [3, 4, 8]])
    assert average_other_fold(differences).tolist() == [[3, 4, 8], [3, 4, 8], [5, 1, 2]]
    assert compute_ranks(np.array([[2.0, 3, 1.5]])) == pytest.approx(np.array([[1, 2, 0]]) / 3)


def test_where_all_samples_are_alike_noise_makes_no_trend():
    """All keep 30% of one effect. Sorted by the pair's own noise, the thirds would differ tenfold in what was put."""
    found = _worlds(30, left=0.3)
    puts = {name: np.mean([each.put[name] for each in found]) for name in found[0].put}
    shares = {
        name: np.mean([each.shares[name].value for each in found]) for name in found[0].shares
    }
    assert max(puts.values()) == pytest.approx(min(puts.values()), rel=0.15)
    assert max(shares.values()) == pytest.approx(min(shares.values()), abs=6)
    low, high = ([each.shares[name].value for each in found] for name in ("low", "high"))
    assert abs(np.mean(np.subtract(high, low))) < 3 * np.std(np.subtract(high, low)) / np.sqrt(30)


def test_intervals_of_strata_cover_zero_where_nothing_is_left():
    shares = [share for found in _worlds(30) for share in found.shares.values()]
    assert np.mean([share.low <= 0 <= share.high for share in shares]) > 0.87


def test_what_only_the_memorized_keep_is_in_their_stratum():
    """A third gains 2 from training and keeps it; the others gain 0.3 and keep nothing."""
    generator = np.random.default_rng(0)
    made = halves(8, generator)
    size = made.deleted.shape
    few = np.arange(made.deleted.shape[1]) % 3 == 0
    base = 2 * generator.normal(size=size[1]) + generator.normal(size=size)
    gain = np.where(few, 2.0, 0.3) * made.deleted
    found = strata(Pairs(base + gain * few, made, Pairs(base + gain, made)))
    assert found.put["high"] > 2 * found.put["low"]
    assert (
        found.shares["high"].low > 70
        and found.shares["top"].low > 60
        and found.shares["low"].value < 50
    )


def test_a_control_with_fewer_pairs_is_sorted_by_all_pairs_of_doing_nothing():
    pairs = population(8, 0.0, np.random.default_rng(0))
    part = replace(
        pairs,
        margins=pairs.margins[:8],
        halves=replace(
            pairs.halves, deleted=pairs.halves.deleted[:8], absent=pairs.halves.absent[:8]
        ),
    )
    whole = strata(pairs)
    few = strata(part)
    assert few.put["high"] == pytest.approx(whole.put["high"], abs=0.3)


def test_what_cannot_be_sorted_is_refused():
    one = strata(population(1, 1.0, np.random.default_rng(0)))
    assert isinstance(one, NoFinding) and "2 pairs" in one.why
    pairs = population(4, 0.0, np.random.default_rng(0))
    other = strata(replace(pairs, nothing=population(4, 0.0, np.random.default_rng(1))))
    assert isinstance(other, NoFinding) and "same halves" in other.why
    four = halves(4, np.random.default_rng(0), pool=4)  # of which none is in the top tenth
    small = strata(Pairs(np.random.default_rng(1).normal(size=four.deleted.shape), four))
    assert isinstance(small, NoFinding) and "too small" in small.why
