"""Halves of pools, and wrong labels, from the files of a run."""

import numpy as np
import pytest

from munkey.core.files import read_csv
from munkey.data import forget_draws, forget_sets
from munkey.memory import neighbors
from munkey.studies.audits.jobs import half, hardest_half, mislabel
from tests.jobs.inputs import CLASSES, LABELS, UNITS, keyed, prepared

DEPTH = 6
TRAIN = np.arange(180)


@pytest.fixture
def made(tmp_path):
    dataset = prepared(tmp_path / "data")
    return dataset, tmp_path / "data/images.npy", *keyed(tmp_path, dataset, DEPTH)


def halves_of(images, tmp_path, pairs=2, **more):
    asked = {
        "dataset": "digits",
        "pool": 0.5,
        "pool_of": "random",
        "draw": 0,
        "depth": DEPTH,
    } | more
    files = [tmp_path / f"half{seed}.csv" for seed in range(2 * pairs)]
    for seed, file in enumerate(files):
        half(images, file, seed=seed, **asked)
    return files


@pytest.mark.parametrize(
    "more", [{}, {"draw": 1, "pool": 0.4}, {"pool_of": "unit"}, {"pool_of": "cluster"}]
)
def test_the_halves_of_a_pool_are_two_and_each_pair_cuts_the_same_pool_anew(made, tmp_path, more):
    more = more | ({"keyfile": made[2]} if more.get("pool_of") == "cluster" else {})
    halves = [set(forget_sets.read(file)) for file in halves_of(made[1], tmp_path, **more)]
    assert not halves[0] & halves[1] and halves[0] | halves[1] == halves[2] | halves[3] <= set(
        TRAIN
    )
    assert halves[0] not in halves[2:] and 70 <= len(halves[0] | halves[1]) <= 110


def test_a_pool_of_another_draw_lies_apart_and_is_as_large(made, tmp_path):
    first, second = (
        np.concatenate(
            [
                forget_sets.read(file)
                for file in halves_of(made[1], tmp_path, 1, pool=0.4, draw=draw)
            ]
        )
        for draw in (0, 1)
    )
    assert not set(first) & set(second) and len(first) == len(second) == 72


def test_whose_the_samples_are_stands_beside_them_where_persons_are_cut(made, tmp_path):
    assert "unit" not in halves_of(made[1], tmp_path, 1)[0].read_text()
    file = halves_of(made[1], tmp_path, 1, pool_of="unit")[0]
    assert forget_sets.read_units([file]) == {one: UNITS[one] for one in forget_sets.read(file)}


def test_the_hardest_halves_have_the_fewest_votes(made, tmp_path, capsys):
    _, images, _, near = made
    for seed in (0, 1):
        hardest_half(images, near, tmp_path / f"hard{seed}.csv", "digits", seed, 0.4, DEPTH)
    pool = np.concatenate([forget_sets.read(tmp_path / f"hard{seed}.csv") for seed in (0, 1)])
    others = neighbors.read_other_neighbors(near, TRAIN, DEPTH - 1).ids
    votes = forget_draws.compute_vote_shares(forget_draws.Members(TRAIN, LABELS[:180]), others)
    assert len(set(pool)) == 72 and votes[pool].mean() < votes.mean()
    assert (
        capsys.readouterr().out.count(
            f"72 samples; their label has {votes[pool].mean():.0%} of their"
        )
        == 2
    )


def test_wrong_labels_are_those_of_the_pool_and_of_all_test_samples(made, tmp_path):
    dataset, images, *_ = made
    pool = halves_of(images, tmp_path, 1)
    out = [tmp_path / "wrong" / name for name in ("images.npy", "samples.csv", "classes.json")]
    mislabel(images, pool, *out, "digits")
    labels = np.array([int(line["label"]) for line in read_csv(out[1])])
    changed = np.concatenate([*map(forget_sets.read, pool), dataset.get_ids("test")])
    assert np.flatnonzero(labels != LABELS).tolist() == sorted(changed)
    assert out[2].read_text() == (
        images.parent / "classes.json"
    ).read_text() and labels.max() < len(CLASSES)
    assert np.array_equal(np.load(out[0]), dataset.images)
