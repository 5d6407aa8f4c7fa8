"""Every sampling draws its samples from the files of a run."""

import numpy as np
import pytest

from munkey.data import forget_draws, forget_sets
from munkey.encoders import keys
from munkey.jobs.forget import forget
from munkey.memory import neighbors
from munkey.studies.scenarios.jobs import Sampling, forget_request
from tests.jobs.inputs import LABELS, UNITS, prepare_files

DEPTH = 6
TRAIN = np.arange(180)


@pytest.fixture
def files(tmp_path):
    return prepare_files(tmp_path, DEPTH)


@pytest.fixture
def draw(files, tmp_path):
    """Draw a forget set as the job does, and return its ids."""

    def draw_ids(sampling, rate="0.1", seed=0, **options):
        request = ("digits", seed, rate)
        out = tmp_path / "forget.csv"
        if sampling in ("uniform", "stratified"):
            forget(files.images, out, *request, sampling)
            return forget_sets.read(out)
        if sampling == "cluster":
            options["keyfile"] = files.keys
        if sampling in ("hard", "medium", "easy", "relied-on"):
            options |= {"neighbors": files.neighbors, "depth": DEPTH}
        forget_request(files.images, out, *request, Sampling(sampling, **options))
        return forget_sets.read(out)

    return draw_ids


def units_of(ids):
    return [UNITS[number] for number in ids]


def ids_of(units):
    """The training samples of these units."""
    return [number for number in TRAIN if UNITS[number] in units]


def test_random_samples_have_the_rate_and_the_seed_of_the_request(draw, capsys):
    ids = draw("stratified")
    assert capsys.readouterr().out == "18 of 180 training samples to forget, stratified\n"
    assert np.bincount(LABELS[ids]).tolist() == [6, 6, 6]
    assert set(ids) <= set(TRAIN)
    assert draw("stratified").tolist() == ids.tolist()
    assert draw("stratified", seed=1).tolist() != ids.tolist()
    assert len(draw("uniform", rate="0.2")) == 36


def test_classes_and_persons_are_forgotten_whole(draw):
    assert draw("class", names=["dog"]).tolist() == TRAIN[LABELS[:180] == 1].tolist()
    persons = ["person 2", "person 4"]
    assert draw("unit", names=persons).tolist() == ids_of(persons)
    assert len(set(LABELS[draw("class", rate="0.3")])) == 1


def test_the_samples_of_a_list_are_forgotten(draw, tmp_path, capsys):
    path = tmp_path / "list.txt"
    path.write_text("\n".join(map(str, range(40, 22, -1))))
    assert draw("listed", listed=path).tolist() == list(range(23, 41))
    assert capsys.readouterr().out == "18 of 180 training samples to forget, listed\n"
    assert draw("listed", listed=path, seed=1).tolist() == list(range(23, 41))
    with pytest.raises(ValueError, match=r"18 of 180 .* forget\.rates: \[0\.1\]"):
        draw("listed", rate="0.5", listed=path)


def test_a_list_that_leaves_one_class_is_refused(draw, tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("\n".join(map(str, TRAIN[LABELS[:180] < 2])))
    with pytest.raises(ValueError, match="fewer than two classes remain"):
        draw("listed", rate="0.6666", listed=path)


def test_the_first_sample_of_some_persons_is_forgotten(draw):
    ids = draw("one-of-unit", rate="0.4")
    persons = units_of(ids)
    assert 1 < len(ids) < 12
    assert len(set(persons)) == len(ids)
    assert ids.tolist() == sorted(UNITS.index(person) for person in persons)


def test_a_share_of_the_samples_of_a_person_is_forgotten(draw):
    ids = draw("known", rate="0.5", names=["person 1"])
    assert len(ids) == 9
    assert set(units_of(ids)) == {"person 1"}


def test_clusters_are_heaps_of_about_twenty_similar_samples(draw, files):
    ids = draw("cluster", rate="0.2")
    members = keys.read(files.keys, TRAIN).keys
    inside = members[np.isin(TRAIN, ids)]
    outside = members[~np.isin(TRAIN, ids)]
    assert 14 <= len(ids) <= 70
    # no heap is cut in two
    assert (inside @ outside.T).max() < (inside @ inside.T).max(axis=1).min()
    assert draw("cluster", rate="0.2").tolist() == ids.tolist()


def test_the_clusters_of_a_larger_set_are_more_and_not_larger(draw, monkeypatch):
    sizes = []

    def cluster_samples(ids, _, size, stage):
        sizes.append(size)
        return forget_draws.Groups(ids, (ids % 4).astype(str).astype(object))

    monkeypatch.setattr(forget_draws, "cluster_samples", cluster_samples)
    draw("cluster", rate="0.5")
    assert sizes == [20]


def test_hard_medium_and_easy_samples_follow_the_votes_of_all_neighbors_but_the_deepest(
    draw, files
):
    near = neighbors.read_other_neighbors(files.neighbors, TRAIN, DEPTH - 1).ids
    votes = forget_draws.compute_vote_shares(forget_draws.Members(TRAIN, LABELS[:180]), near)
    hard = votes[draw("hard", rate="0.3")]
    medium = votes[draw("medium", rate="0.3")]
    easy = votes[draw("easy", rate="0.3")]
    assert hard.mean() < medium.mean() < easy.mean()
    assert hard.sum() == pytest.approx(np.sort(votes)[:54].sum())


@pytest.mark.parametrize("k", [1, 3])
def test_the_nearest_samples_of_the_test_pictures_of_a_person_are_forgotten(draw, files, k):
    test_ids = np.array([number for number in range(189, 210) if UNITS[number] == "person 8"])
    nearest = neighbors.read_neighbors(files.neighbors, test_ids).ids[:, :k]
    assert draw("relied-on", names=["person 8"], k=k).tolist() == np.unique(nearest).tolist()
    with pytest.raises(ValueError, match="'person 70'"):
        draw("relied-on", names=["person 70"])
