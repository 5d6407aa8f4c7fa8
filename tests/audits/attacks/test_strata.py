"""Strata: by hand, their level on noise, and what the average hides."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from munkey.audits.attacks.strata import Strata, compute_ranks, strata
from munkey.audits.evidence import Pairs, average_other_fold
from munkey.audits.registry import NoFinding
from tests.audits.inputs import halves, population


def _worlds(seeds: int, remaining: float = 0.0, effect: float = 1.0) -> list[Strata]:
    return [
        strata(population(8, remaining, np.random.default_rng(seed), effect))
        for seed in range(seeds)
    ]


def _shares(worlds: list[Strata]) -> pd.DataFrame:
    """A row for each world, a column for each stratum."""
    return pd.DataFrame([world.shares for world in worlds])


def test_samples_are_sorted_by_the_differences_of_the_other_fold():
    differences = np.array([[9.0, 0, 1], [1, 2, 3], [3, 4, 8]])
    assert average_other_fold(differences).tolist() == [[3, 4, 8], [3, 4, 8], [5, 1, 2]]
    assert compute_ranks(np.array([[2.0, 3, 1.5]])) == pytest.approx(np.array([[1, 2, 0]]) / 3)


def test_noise_makes_no_trend_over_strata_of_equal_samples():
    """All keep 30% of one effect. Sorted by the pair's own noise, the thirds would differ tenfold in what was put."""
    worlds = _worlds(30, remaining=0.3)
    puts = pd.DataFrame([world.put for world in worlds])
    shares = _shares(worlds).map(lambda share: share.value)
    assert puts.mean().max() == pytest.approx(puts.mean().min(), rel=0.15)
    assert shares.mean().max() == pytest.approx(shares.mean().min(), abs=6)
    trend = shares["high"] - shares["low"]
    assert abs(trend.mean()) < 3 * trend.std(ddof=0) / np.sqrt(30)


def test_intervals_of_strata_cover_zero_where_nothing_is_left():
    covers_zero = _shares(_worlds(30)).map(lambda share: share.low <= 0 <= share.high)
    assert covers_zero.to_numpy().mean() > 0.87


def test_a_residue_of_memorized_samples_is_in_their_stratum():
    """A third gains 2 from training and keeps it; the others gain 0.3 and keep nothing."""
    generator = np.random.default_rng(0)
    swapped_halves = halves(8, generator)
    size = swapped_halves.deleted.shape
    few = np.arange(swapped_halves.deleted.shape[1]) % 3 == 0
    base = 2 * generator.normal(size=size[1]) + generator.normal(size=size)
    gain = np.where(few, 2.0, 0.3) * swapped_halves.deleted
    result = strata(Pairs(base + gain * few, swapped_halves, Pairs(base + gain, swapped_halves)))
    assert result.put["high"] > 2 * result.put["low"]
    assert result.shares["high"].low > 70
    assert result.shares["top"].low > 60
    assert result.shares["low"].value < 50


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


def test_pairs_that_cannot_be_sorted_are_refused():
    one = strata(population(1, 1.0, np.random.default_rng(0)))
    assert isinstance(one, NoFinding)
    assert "2 pairs" in one.why
    pairs = population(4, 0.0, np.random.default_rng(0))
    other = strata(replace(pairs, nothing=population(4, 0.0, np.random.default_rng(1))))
    assert isinstance(other, NoFinding)
    assert "same halves" in other.why
    four = halves(4, np.random.default_rng(0), pool=4)  # of which none is in the top tenth
    small = strata(Pairs(np.random.default_rng(1).normal(size=four.deleted.shape), four))
    assert isinstance(small, NoFinding)
    assert "too small" in small.why
