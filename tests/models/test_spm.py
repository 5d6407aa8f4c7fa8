"""SPM: attention to class means, its support in training, and what the deletion of rows changes."""

import math

import numpy as np
import pytest
import torch

from munkey.models.families.spm import draw_support
from munkey.models.family import FAMILIES, System, Training
from munkey.models.networks.spm import MIN_PROBABILITY, Spm, SpmArchitecture, average_classes
from tests.conftest import VIT, generator, lively
from tests.models.inputs import answered, normalized, quiet, recipe, seven_samples, trained
from tests.unlearn.world import original, unlearn, world

ARCHITECTURE = SpmArchitecture(**vars(VIT), support=12)
WIDTH = ARCHITECTURE.width


@pytest.fixture
def model() -> Spm:
    network = lively(FAMILIES["spm"].build(ARCHITECTURE, generator()))
    assert isinstance(network, Spm)
    return network


@torch.no_grad()
def attend_by_hand(model: Spm, query: torch.Tensor, means: dict[int, torch.Tensor]) -> np.ndarray:
    """Probabilities (C,) of one embedding; `means` are those of the classes that have rows."""
    votes = np.zeros(ARCHITECTURE.classes)
    for label, mean in means.items():
        score = float(model.head(query) @ model.support_head(mean))
        votes[label] = math.exp(score / math.sqrt(WIDTH))
    return votes / votes.sum()


# Class means


def test_class_means_are_averages_and_zero_without_samples():
    embeddings = torch.tensor([[1.0, 2.0], [3.0, 6.0], [5.0, 5.0]])
    means, is_present = average_classes(embeddings, torch.tensor([2, 2, 0]), classes=4)
    assert means.tolist() == [[5.0, 5.0], [0.0, 0.0], [2.0, 4.0], [0.0, 0.0]]
    assert is_present.tolist() == [True, False, True, False]


@torch.no_grad()
def test_a_class_without_rows_gets_the_smallest_probability(model):
    embeddings = torch.randn(6, WIDTH, generator=generator())
    labels = torch.tensor([0, 0, 2, 2, 2, 0])
    model.set_rows(embeddings, labels)
    images = normalized(seven_samples())
    log_probabilities = model(images)
    means = {0: embeddings[labels == 0].mean(dim=0), 2: embeddings[labels == 2].mean(dim=0)}
    for query, row in zip(model.embed(images), log_probabilities, strict=True):
        expected = attend_by_hand(model, query, means)
        np.testing.assert_allclose(row[[0, 2]].exp(), expected[[0, 2]], rtol=1e-5)
        assert row[1] == pytest.approx(math.log(MIN_PROBABILITY))


@torch.no_grad()
def test_a_model_without_rows_prefers_no_class(model):
    model.set_rows(torch.empty(0, WIDTH), torch.empty(0, dtype=torch.int64))
    log_probabilities = model(normalized(seven_samples()))
    assert log_probabilities.unique().tolist() == pytest.approx([math.log(MIN_PROBABILITY)])


# Training


def test_support_is_drawn_evenly_from_the_classes_of_the_batch_but_not_the_batch_itself():
    labels = np.repeat([0, 1, 2], 20)
    batch = torch.tensor([0, 1, 45])
    support = draw_support(labels, batch, 11, generator()).tolist()
    assert len(set(support)) == 11
    assert not set(support) & {0, 1, 45}
    assert np.bincount(labels[support], minlength=3).tolist() == [6, 0, 5]


def test_a_class_with_few_other_samples_repeats_them():
    labels = np.array([0, 0, 0, 1, 1, 1])
    support = draw_support(labels, torch.tensor([0, 3, 4]), 8, generator()).tolist()
    assert set(support) == {1, 2, 5}
    assert np.bincount(labels[support]).tolist() == [4, 4]


def test_a_class_without_other_samples_has_no_support():
    labels = np.array([0, 1, 1])
    assert draw_support(labels, torch.tensor([0, 1]), 4, generator()).tolist() == [2, 2]
    assert draw_support(labels, torch.tensor([0]), 4, generator()).tolist() == []


@torch.no_grad()
def test_training_compares_a_batch_with_crops_of_its_support(params, model, monkeypatch):
    support = []

    def draw(labels, batch, count, generator):
        support.append(draw_support(labels, batch, count, generator))
        return support[-1]

    monkeypatch.setattr("munkey.models.families.spm.draw_support", draw)
    samples = seven_samples()
    whole = {"crop_scale": [1.0, 1.0], "crop_ratio": [1.0, 1.0]}
    training = Training(samples, 3, recipe(params, "spm", train=whole, support=4), "cpu", quiet)
    learner = FAMILIES["spm"].make_learner(System("spm", ARCHITECTURE, model), model, training)
    images = normalized(samples)
    index = torch.tensor([0, 1, 2])
    log_probabilities = learner.predict(images[index], index)
    means = {}
    embeddings = model.embed(images)
    support_labels = samples.labels[support[0]]
    for label in np.unique(support_labels).tolist():
        means[label] = embeddings[support[0][support_labels == label]].mean(dim=0)
    for query, row in zip(embeddings[index], log_probabilities, strict=True):
        expected = attend_by_hand(model, query, means).clip(MIN_PROBABILITY)
        np.testing.assert_allclose(row.exp(), expected, rtol=1e-4)


def test_the_rows_of_a_trained_system_are_the_embeddings_of_whole_images(params):
    samples = seven_samples()
    system = trained(recipe(params, "spm", train={"epochs": 1}), "spm", samples).system
    memory = system.memory
    with torch.inference_mode():
        embeddings = system.model.embed(normalized(samples))
    torch.testing.assert_close(memory.keys, embeddings)
    assert memory.ids.tolist() == samples.ids.tolist()
    assert memory.tokens[:, 0].tolist() == samples.labels.tolist()
    assert answered(system, samples).shape == (7, 3)


# Deletion


def test_deletion_removes_a_row_from_its_class_mean_and_leaves_the_weights():
    before = original("spm")
    after, _ = unlearn("spm")
    remaining = ~np.isin(before.memory.ids.numpy(), world().forget_ids)
    labels = before.memory.tokens[remaining, 0]
    for label in labels.unique().long().tolist():
        rows = before.memory.keys[remaining][labels == label]
        torch.testing.assert_close(after.model.means[label], rows.mean(dim=0))
    assert after.memory.ids.tolist() == before.memory.ids[remaining].tolist()
    torch.testing.assert_close(after.model.head.weight, before.model.head.weight, rtol=0, atol=0)
    assert not torch.equal(after.model.means, before.model.means)
