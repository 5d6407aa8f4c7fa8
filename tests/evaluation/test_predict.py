"""The predictions of a whole system hold every sample of every split, and the members of a memory with pathways cut."""

from dataclasses import replace

import numpy as np
import pytest

from munkey.data.image_set import image_set as of_dataset
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.evaluation.predict import Queries, predict_samples
from munkey.models.family import FAMILIES, System
from tests.conftest import VIT, generator, image_set, lively
from tests.models.inputs import DATA, QUERIES, fitted, retrieval


@pytest.fixture
def dataset():
    """Seven samples, ids 10, 12, ..., 22; the memory of MUNKEY holds the first six."""
    samples = image_set(7, side=10)
    splits = np.array(["train"] * 5 + ["val", "test"])
    return Dataset(samples.images, samples.ids, samples.labels, splits, ["a", "b", "c"])


def test_a_system_without_a_memory_answers_every_sample(dataset):
    system = System("vit", VIT, lively(FAMILIES["vit"].build(VIT, generator())))
    arrays = predict_samples(system, dataset, Queries(dataset.ids), DATA, "cpu")
    assert list(arrays) == ["ids", "labels", "splits", "logits"]
    for name in ("ids", "labels", "splits"):
        np.testing.assert_array_equal(arrays[name], getattr(dataset, name))
    expected = FAMILIES["vit"].predict_logits(
        system, of_dataset(dataset, dataset.ids), DATA, "cpu", None
    )
    np.testing.assert_array_equal(arrays["logits"], expected)


def test_units_stand_beside_their_samples_and_none_is_empty(dataset):
    system = System("vit", VIT, lively(FAMILIES["vit"].build(VIT, generator())))
    grouped = replace(dataset, units=("Ann", None, *["Bo"] * 4, "Cy"))
    units = predict_samples(system, grouped, Queries(dataset.ids[[0, 1, 6]]), DATA, "cpu")["units"]
    assert units.tolist() == ["Ann", "", "Cy"]


def test_a_memory_without_pathways_has_nothing_to_cut(dataset):
    system = fitted("knn", Keys(QUERIES.ids[:6], QUERIES.keys[:6]), dataset.labels[:6])
    arrays = predict_samples(
        system, dataset, Queries(dataset.ids, retrieval(system.memory, None)), DATA, "cpu"
    )
    assert list(arrays) == ["ids", "labels", "splits", "logits"]


def test_the_members_of_a_memory_answer_with_either_pathway_cut_too(
    dataset, munkey_system, inference
):
    """After a deletion these are the members that are left, and their images go by id."""
    rest = replace(munkey_system, memory=munkey_system.memory.forget(np.array([10, 16])))
    queries = retrieval(rest.memory, inference())
    arrays = predict_samples(rest, dataset, Queries(dataset.ids, queries), DATA, "cpu")
    names = {"ids", "labels", "splits", "logits", "memory_ids", "memory_labels"}
    assert arrays.keys() == names | {"image_logits", "token_logits", "both_logits"}
    family = FAMILIES["munkey"]
    members = of_dataset(dataset, np.array([12, 14, 18, 20]))
    assert arrays["memory_ids"].tolist() == members.ids.tolist()
    assert arrays["memory_labels"].tolist() == members.labels.tolist()
    for name, logits in family.predict_cut_logits(rest, members, DATA, "cpu").items():
        np.testing.assert_array_equal(arrays[f"{name}_logits"], logits)
    expected = family.predict_logits(rest, of_dataset(dataset, dataset.ids), DATA, "cpu", queries)
    np.testing.assert_array_equal(arrays["logits"], expected)


def test_answers_for_some_samples_are_those_among_all_and_every_member_is_cut(
    dataset, munkey_system, inference
):
    some = dataset.ids[[1, 4, 6]]
    queries = retrieval(munkey_system.memory, inference())
    near = replace(queries, neighbors=queries.neighbors.select(np.array([1, 4, 6])))
    every = predict_samples(
        munkey_system, dataset, Queries(dataset.ids, queries, queries), DATA, "cpu"
    )
    few = predict_samples(munkey_system, dataset, Queries(some, near, near), DATA, "cpu")
    assert few["ids"].tolist() == some.tolist()
    assert every.keys() == few.keys()
    for name in ("labels", "splits"):
        np.testing.assert_array_equal(few[name], every[name][[1, 4, 6]])
    for name in ("logits", "path_softmax", "path_image", "path_token"):
        np.testing.assert_allclose(few[name], every[name][[1, 4, 6]], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(few["image_logits"], every["image_logits"])


def test_a_system_whose_neighbors_were_deleted_gives_no_predictions(
    dataset, munkey_system, inference
):
    stale = retrieval(munkey_system.memory, inference(k=6))
    rest = replace(munkey_system, memory=munkey_system.memory.forget(np.array([14])))
    with pytest.raises(KeyError, match="14"):
        predict_samples(rest, dataset, Queries(dataset.ids, stale), DATA, "cpu")
