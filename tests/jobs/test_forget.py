"""Every sampling draws what it is named for, from the files of a run."""

import numpy as np
import pytest

from munkey.core.files import read_csv
from munkey.data import forget_draws, forget_sets
from munkey.encoders import keys
from munkey.jobs.forget import Sampling, forget
from munkey.jobs.pools import half, hardest_half, mislabel
from munkey.memory import neighbors
from tests.jobs.inputs import CLASSES, LABELS, UNITS, keyed, prepared

DEPTH = 6
TRAIN = np.arange(180)


@pytest.fixture
def made(tmp_path):
    dataset = prepared(tmp_path / "data")
    return dataset, tmp_path / "data/images.npy", *keyed(tmp_path, dataset, DEPTH)


@pytest.fixture
def drawn(made, tmp_path, capsys):
    """Draws a forget set as the job does: ids, and what it says."""
    _, images, keyfile, near = made

    def draw(sampling, rate="0.1", seed=0, **more):
        files = {"keyfile": keyfile} if sampling == "cluster" else {}
        if sampling in ("hard", "medium", "easy", "relied-on"):
            files = {"neighbors": near, "depth": DEPTH}
        forget(
            images,
            tmp_path / "forget.csv",
            "digits",
            seed,
            rate,
            Sampling(sampling, **files, **more),
        )
        return forget_sets.read(tmp_path / "forget.csv"), capsys.readouterr().out

    return draw


def units_of(ids):
    return [UNITS[one] for one in ids]


def test_random_samples(drawn):
    ids, said = drawn("stratified")
    assert np.bincount(LABELS[ids]).tolist() == [6, 6, 6] and set(ids) <= set(TRAIN)
    assert said == "18 of 180 training samples to forget, stratified\n"
    assert (
        drawn("stratified", seed=1)[0].tolist() != ids.tolist() == drawn("stratified")[0].tolist()
    )
    assert len(drawn("uniform", rate="0.2")[0]) == 36


def test_whole_classes_and_whole_persons(drawn):
    assert drawn("class", names=["dog"])[0].tolist() == TRAIN[LABELS[:180] == 1].tolist()
    chosen, _ = drawn("unit", names=["person 2", "person 4"])
    assert chosen.tolist() == [one for one in TRAIN if UNITS[one] in ("person 2", "person 4")]
    assert len(set(LABELS[drawn("class", rate="0.3")[0]])) == 1


def test_what_a_list_names_and_nothing_else(drawn, tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"{one}\n" for one in range(40, 22, -1)))
    ids, said = drawn("listed", listed=tmp_path / "list.txt")
    assert ids.tolist() == list(range(23, 41))
    assert said == "18 of 180 training samples to forget, listed\n"
    assert drawn("listed", listed=tmp_path / "list.txt", seed=1)[0].tolist() == ids.tolist()
    with pytest.raises(ValueError, match=r"lists 18 of 180 .* write forget\.rates: \[0\.1\]"):
        drawn("listed", rate="0.5", listed=tmp_path / "list.txt")


def test_a_list_that_leaves_one_class_is_refused(drawn, tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"{one}\n" for one in TRAIN if LABELS[one] < 2))
    with pytest.raises(ValueError, match="fewer than two classes remain"):
        drawn("listed", rate="0.6666", listed=tmp_path / "list.txt")


def test_one_sample_of_each_of_some_persons_is_the_first(drawn):
    ids, _ = drawn("one-of-unit", rate="0.4")
    persons = units_of(ids)
    assert 1 < len(ids) == len(set(persons)) < 12
    assert ids.tolist() == sorted(UNITS.index(person) for person in persons)


def test_a_share_of_what_is_known(drawn):
    ids, _ = drawn("known", rate="0.5", names=["person 1"])
    assert len(ids) == 9 and set(units_of(ids)) == {"person 1"}


def test_clusters_are_heaps_of_about_twenty_alike(drawn, made):
    ids, _ = drawn("cluster", rate="0.2")
    members = keys.read(made[2], TRAIN)
    inside = np.isin(TRAIN, ids)
    within, across = (members.keys[inside] @ members.keys[rows].T for rows in (inside, ~inside))
    assert 14 <= len(ids) <= 70
    assert across.max() < within.max(axis=1).min()  # no heap is cut in two
    assert drawn("cluster", rate="0.2")[0].tolist() == ids.tolist()


def test_the_clusters_of_a_larger_set_grow_in_number_not_in_size(made, drawn, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        forget_draws,
        "cluster_samples",
        lambda ids, _, size, stage: sizes.append(size) or grouped(ids),
    )
    drawn("cluster", rate="0.5")
    assert sizes == [20]


def grouped(ids):
    return forget_draws.Groups(ids, np.array([str(one % 4) for one in ids], dtype=object))


def test_hard_medium_and_easy_follow_the_votes_of_all_neighbors_but_the_deepest(drawn, made):
    near = neighbors.read_other_neighbors(made[3], TRAIN, DEPTH - 1).ids
    votes = forget_draws.compute_vote_shares(forget_draws.Members(TRAIN, LABELS[:180]), near)
    means = [
        votes[drawn(sampling, rate="0.3")[0]].mean() for sampling in ("hard", "medium", "easy")
    ]
    assert means[0] < means[1] < means[2]
    assert np.sort(votes)[:54].sum() == pytest.approx(votes[drawn("hard", rate="0.3")[0]].sum())


@pytest.mark.parametrize("k", [1, 3])
def test_what_the_test_pictures_of_a_person_relied_on(drawn, made, k):
    asked = [one for one in range(189, 210) if UNITS[one] == "person 8"]
    ids, _ = drawn("relied-on", names=["person 8"], k=k)
    assert (
        ids.tolist()
        == np.unique(neighbors.read_neighbors(made[3], np.array(asked)).ids[:, :k]).tolist()
    )
    with pytest.raises(ValueError, match="no sample belongs to 'person 70'"):
        drawn("relied-on", names=["person 70"])


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
