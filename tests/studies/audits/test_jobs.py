"""Halves of pools, and wrong labels, from the files of a run."""

import numpy as np
import pytest

from munkey.core.files import read_csv
from munkey.data import forget_draws, forget_sets
from munkey.data.prepared import load
from munkey.memory import neighbors
from munkey.studies.audits.jobs import half, hardest_half, mislabel
from tests.jobs.inputs import CLASSES, LABELS, UNITS, prepare_files

DEPTH = 6
TRAIN = np.arange(180)


@pytest.fixture
def files(tmp_path):
    return prepare_files(tmp_path, DEPTH)


def write_halves(images, folder, pairs=2, **changes):
    """The files of the halves of a pool, as jobs write them."""
    settings = {"dataset": "digits", "pool": 0.5, "pool_of": "random", "draw": 0, "depth": DEPTH}
    halves = []
    for seed in range(2 * pairs):
        halves.append(folder / f"half{seed}.csv")
        half(images, halves[-1], seed=seed, **settings | changes)
    return halves


@pytest.mark.parametrize(
    "changes", [{}, {"draw": 1, "pool": 0.4}, {"pool_of": "unit"}, {"pool_of": "cluster"}]
)
def test_each_pair_cuts_the_same_pool_into_other_halves(files, tmp_path, changes):
    if changes.get("pool_of") == "cluster":
        changes = changes | {"keyfile": files.keys}
    paths = write_halves(files.images, tmp_path, **changes)
    first, second, third, fourth = (set(forget_sets.read(path)) for path in paths)
    pool = first | second
    assert not first & second
    assert third | fourth == pool
    assert pool <= set(TRAIN)
    assert first not in (third, fourth)
    assert 70 <= len(pool) <= 110


def test_pools_of_two_draws_are_disjoint_and_equally_large(files, tmp_path):
    pools = []
    for draw in (0, 1):
        halves = write_halves(files.images, tmp_path, 1, pool=0.4, draw=draw)
        pools.append({*forget_sets.read(halves[0]), *forget_sets.read(halves[1])})
    assert not pools[0] & pools[1]
    assert [len(pool) for pool in pools] == [72, 72]


def test_halves_of_persons_have_the_person_of_each_sample(files, tmp_path):
    assert "unit" not in write_halves(files.images, tmp_path, 1)[0].read_text()
    path = write_halves(files.images, tmp_path, 1, pool_of="unit")[0]
    expected = {number: UNITS[number] for number in forget_sets.read(path)}
    assert forget_sets.read_units([path]) == expected


def test_the_hardest_halves_have_the_fewest_votes(files, tmp_path, capsys):
    pool = []
    for seed in (0, 1):
        path = tmp_path / f"hard{seed}.csv"
        hardest_half(files.images, files.neighbors, path, "digits", seed, 0.4, DEPTH)
        pool += forget_sets.read(path).tolist()
    others = neighbors.read_other_neighbors(files.neighbors, TRAIN, DEPTH - 1).ids
    votes = forget_draws.compute_vote_shares(forget_draws.Members(TRAIN, LABELS[:180]), others)
    assert len(set(pool)) == 72
    assert votes[pool].mean() < votes.mean()
    for line in capsys.readouterr().out.splitlines():
        assert "72 samples" in line
        assert f"{votes[pool].mean():.0%}" in line


def test_wrong_labels_are_those_of_the_pool_and_of_all_test_samples(files, tmp_path):
    dataset = load(files.images.parent)
    pool = write_halves(files.images, tmp_path, 1)
    images, samples, classes = (
        tmp_path / "wrong" / name for name in ("images.npy", "samples.csv", "classes.json")
    )
    mislabel(files.images, pool, images, samples, classes, "digits")
    labels = np.array([int(line["label"]) for line in read_csv(samples)])
    expected = np.concatenate([*map(forget_sets.read, pool), dataset.get_ids("test")])
    assert np.flatnonzero(labels != LABELS).tolist() == sorted(expected)
    assert classes.read_text() == (files.images.parent / "classes.json").read_text()
    assert labels.max() < len(CLASSES)
    assert np.array_equal(np.load(images), dataset.images)
