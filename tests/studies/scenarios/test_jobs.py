"""Every sampling draws what it is named for, from the files of a run."""

import numpy as np
import pytest

from munkey.data import forget_draws, forget_sets
from munkey.encoders import keys
from munkey.jobs.forget import forget
from munkey.memory import neighbors
from munkey.studies.scenarios.jobs import Sampling, forget_request
from tests.jobs.inputs import LABELS, UNITS, keyed, prepared

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
        request = ("digits", seed, rate)
        if sampling in ("uniform", "stratified"):
            forget(images, tmp_path / "forget.csv", *request, sampling)
        else:
            forget_request(
                images, tmp_path / "forget.csv", *request, Sampling(sampling, **files, **more)
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
