"""Audits of units: halves hold whole persons, and shares, tests and intervals are of persons, not of pictures."""

import numpy as np
import pandas as pd
import pytest

from munkey.audits.attacks.residual_share import residual_share
from munkey.audits.evidence import Halves, Pairs
from munkey.audits.verdict import run_joint_tests
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.data.forget_draws import Groups, draw_group_halves

PERSONS = 40
PICTURES = 4
TEST = 120


def halves(pairs: int, generator: np.random.Generator) -> Halves:
    """Persons with four pictures each, then test samples."""
    units = np.repeat(np.arange(PERSONS), PICTURES)
    first = generator.permuted(np.tile(np.arange(PERSONS) < PERSONS // 2, (pairs, 1)), axis=1)
    cut = np.stack([first, ~first], 1).reshape(2 * pairs, PERSONS)[:, units]
    deleted = np.pad(cut, ((0, 0), (0, TEST)))
    absent = np.pad(~cut, ((0, 0), (0, TEST)))
    return Halves(
        deleted,
        absent,
        np.arange(deleted.shape[1]) >= len(units),
        np.pad(units, (0, TEST), constant_values=-1),
    )


def world(remaining: float, generator: np.random.Generator, pairs: int = 4) -> Pairs:
    """What a model makes of a person is the same for all of the person's pictures: no four samples of luck."""
    halves_of_persons = halves(pairs, generator)
    size = halves_of_persons.deleted.shape
    of_person = np.pad(
        np.repeat(generator.normal(size=(size[0], PERSONS)), PICTURES, axis=1), ((0, 0), (0, TEST))
    )
    base = 2 * generator.normal(size=size[1]) + of_person + 0.3 * generator.normal(size=size)
    gain = generator.normal(1.5, 0.2, (size[0], 1)) * halves_of_persons.deleted
    return Pairs(base + remaining * gain, halves_of_persons, Pairs(base + gain, halves_of_persons))


def without_units(pairs: Pairs) -> Pairs:
    plain = Halves(pairs.halves.deleted, pairs.halves.absent, pairs.halves.test)
    assert pairs.nothing is not None
    return Pairs(pairs.margins, plain, Pairs(pairs.nothing.margins, plain))


def test_scores_are_those_of_a_persons_mean_rank():
    pairs = world(0.0, np.random.default_rng(0))
    by_picture = without_units(pairs).pool_counts.reshape(8, PERSONS, PICTURES).mean(axis=2)
    np.testing.assert_allclose(pairs.pool_counts, by_picture)
    assert pairs.halves.first.shape == (4, PERSONS)


def flagged(pairs: Pairs, seed: int, redraws: int = 99) -> bool:
    tests = run_joint_tests(pairs, np.random.default_rng(seed), redraws)
    return min(test.p for test in tests.values()) <= 0.05


def test_only_redraws_of_pictures_raise_false_alarms_where_nothing_is_left():
    """Halves are redrawn as they were drawn, by person; to redraw pictures would take one person's luck for four."""
    worlds = [world(0.0, np.random.default_rng(seed)) for seed in range(60)]
    persons = np.mean([flagged(pairs, seed) for seed, pairs in enumerate(worlds)])
    pictures = np.mean([flagged(without_units(pairs), seed) for seed, pairs in enumerate(worlds)])
    assert persons <= 0.05
    assert pictures >= 0.1


def shares_of(worlds: list[Pairs]) -> pd.DataFrame:
    """The residual share of each audit: value, low, high, in percent."""
    return pd.DataFrame([vars(residual_share(pairs).share) for pairs in worlds])


def compute_coverage(shares: pd.DataFrame, remaining: float) -> float:
    """How many of the intervals contain the share that is left."""
    return ((shares["low"] <= 100 * remaining) & (100 * remaining <= shares["high"])).mean()


def test_intervals_cover_the_share_that_is_left_of_persons():
    for remaining in (0.0, 0.1):
        worlds = [world(remaining, np.random.default_rng(seed)) for seed in range(80)]
        shares = shares_of(worlds)
        assert compute_coverage(shares, remaining) >= 0.88
        assert shares["value"].mean() == pytest.approx(100 * remaining, abs=3)


@pytest.mark.soak
@pytest.mark.parametrize("remaining", [0.0, 0.1])
def test_500_audits_of_persons_keep_their_level_and_cover_the_share_that_is_left(remaining: float):
    """docs/audits.md quotes what this prints. 40 persons in 4 pairs are few: 10% is hardly found, but held."""
    worlds = [world(remaining, np.random.default_rng(1000 + seed)) for seed in range(500)]
    coverage = compute_coverage(shares_of(worlds), remaining)
    share_flagged = np.mean([flagged(pairs, seed, 999) for seed, pairs in enumerate(worlds)])
    print(
        f"left {remaining:.0%}: flagged {share_flagged:.1%}, intervals that hold it {coverage:.1%}, n = 500"
    )
    assert coverage >= 0.93
    assert remaining > 0 or share_flagged <= 0.07


def test_a_unit_in_both_halves_is_refused():
    deleted = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 1, 0]], dtype=bool)
    with pytest.raises(ValueError, match="a unit is in both halves"):
        Halves(
            deleted,
            deleted[::-1],
            np.array([0, 0, 0, 0, 1], dtype=bool),
            np.array([0, 0, 1, 1, -1]),
        )


def test_halves_of_a_pool_of_groups_contain_whole_groups_and_their_file_names_them(tmp_path):
    ids = np.arange(100) * 2
    names = np.array([f"p{number}" for number in range(20)], dtype=object)
    groups = Groups(ids, names.repeat(5))
    labels = np.arange(100) % 3
    stage = Stage("pool")
    first_halves = []
    pools = []
    for number in range(3):
        pair = Stage("pair", number)
        first, second = draw_group_halves(groups, labels, 0.4, stage, pair)
        assert len(first) == len(second) == 20
        assert len(np.unique(first // 10)) == 4  # whole groups
        first_halves.append(tuple(first))
        pools.append(sorted([*first, *second]))
        assert len(set(pools[-1])) == 40
    assert pools[0] == pools[1] == pools[2]
    assert len(set(first_halves)) == 3
    half = np.array(first_halves[0])
    units = dict(zip(ids.tolist(), groups.names.tolist(), strict=True))
    forget_sets.write(tmp_path / "half.csv", half, units)
    assert forget_sets.read_units([tmp_path / "half.csv"]) == {
        i: f"p{i // 10}" for i in half.tolist()
    }
    forget_sets.write(tmp_path / "plain.csv", half)
    assert forget_sets.read_units([tmp_path / "plain.csv"]) == {}
    with pytest.raises(ValueError, match=r"2 of 20 groups.*needs 4"):
        draw_group_halves(groups, labels, 0.1, stage, Stage("pair", 0))
