"""The predictions of a whole system hold every sample of every split, and the members of a memory with pathways cut."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from munkey.data.image_set import NOISE, perturb
from munkey.data.image_set import image_set as of_dataset
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.evaluation.predict import Queries, fit_probe, predict_samples
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


FURTHER = ("perturbed", "probe")


def test_further_paths_answer_noisy_pictures_and_by_a_probe_of_other_training_samples(dataset):
    system = System("vit", VIT, lively(FAMILIES["vit"].build(VIT, generator())))
    ids = dataset.ids[[1, 5, 6]]
    arrays = predict_samples(system, dataset, Queries(ids, paths=FURTHER), DATA, "cpu")
    samples = of_dataset(dataset, ids)
    family = FAMILIES["vit"]
    np.testing.assert_array_equal(
        arrays["path_perturbed"],
        family.predict_logits(system, perturb(samples), DATA, "cpu", None),
    )
    assert not np.array_equal(arrays["path_perturbed"], arrays["logits"])
    others = of_dataset(dataset, dataset.ids[[0, 2, 3, 4]])  # the training samples that are left
    features = family.extract_image_features(system, others, DATA, "cpu")
    scaler = StandardScaler().fit(features)
    probe = LogisticRegression(max_iter=1000).fit(scaler.transform(features), others.labels)
    queried = scaler.transform(family.extract_image_features(system, samples, DATA, "cpu"))
    probabilities = softmax(arrays["path_probe"][:, probe.classes_], axis=1)
    np.testing.assert_allclose(probabilities, probe.predict_proba(queried), atol=1e-4)


@pytest.mark.parametrize("name", ["vit", "munkey"])
def test_the_features_are_what_the_head_reads_of_images_alone(
    name, dataset, munkey_system, inference
):
    samples = of_dataset(dataset, dataset.ids)
    if name == "vit":
        system = System("vit", VIT, lively(FAMILIES["vit"].build(VIT, generator())))
        expected = FAMILIES["vit"].predict_logits(system, samples, DATA, "cpu", None)
    else:
        system = munkey_system
        queries = retrieval(system.memory, inference())
        expected = FAMILIES["munkey"].predict_path_logits(system, samples, DATA, "cpu", queries)[
            "image"
        ]
    features = FAMILIES[name].extract_image_features(system, samples, DATA, "cpu")
    with torch.no_grad():
        logits = system.model.head(torch.from_numpy(features)).numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_the_same_samples_always_get_the_same_noise_of_about_eight_pixel_values():
    samples = image_set(40, side=10)
    gray = replace(samples, images=np.full_like(samples.images, 128))
    noise = perturb(gray).images.astype(int) - 128
    assert noise.std() == pytest.approx(NOISE, rel=0.03)
    assert abs(noise.mean()) < 0.3
    assert not np.array_equal(noise[0], noise[1])
    np.testing.assert_array_equal(perturb(samples).images, perturb(samples).images)
    white = replace(samples, images=np.full_like(samples.images, 255))
    assert perturb(white).images.min() > 200  # no overflow


def test_a_probe_knows_two_classes_missing_ones_and_features_that_are_not_finite():
    features = np.array([[-1.0, 0], [-2, 1], [1, 0], [2, 1]])
    logits = fit_probe(features, np.array([0, 0, 2, 2]), features, 3)
    assert logits.argmax(axis=1).tolist() == [0, 0, 2, 2]
    np.testing.assert_array_equal(logits[:, 1], logits[:, [0, 2]].min(axis=1))
    features[0, 0] = np.nan
    assert np.isnan(fit_probe(features, np.array([0, 0, 2, 2]), features, 3)).all()
