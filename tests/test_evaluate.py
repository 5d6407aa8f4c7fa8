"""Retrieval and late fusion equal a slow loop that follows the paper's words; nothing deleted can answer."""

import numpy as np
import pytest
import torch

from munkey import evaluate, models
from munkey.evaluate import KNN_FLOOR, knn_logits, pathway_logits, predict
from munkey.images import normalise, resize
from munkey.neighbors import NOBODY, nearest
from munkey.system import System, knn_index
from tests.conftest import MUNKEY, VIT, generator, image_set, lively, unit_rows

QUERIES = unit_rows(7, 4, seed=9)


@pytest.fixture
def samples():
    """Seven images larger than the model's input; ids 10 to 20 are in the memory, 22 is not."""
    return image_set(7, side=10)


def found(memory, depth=6):
    """Neighbours of the seven samples, whose keys are QUERIES."""
    return nearest(QUERIES, 10 + 2 * np.arange(7), memory.keys.numpy(), memory.ids.numpy(), depth)


def inputs(samples, data):
    images, _ = samples.batch(torch.arange(len(samples)), "cpu")
    return normalise(resize(images, data.image_size), data.pixel_mean, data.pixel_std)


def answered_slowly(system, images, neighbours, settings):
    """One query, one neighbour, one pass at a time."""
    logits = []
    for image, ids, cosines in zip(images[:, None], *neighbours, strict=True):
        present = [(i, c) for i, c in zip(ids[: settings.k], cosines[: settings.k], strict=True) if i != NOBODY]
        tokens = torch.stack([system.memory.tokens[system.memory.ids == i][0] for i, _ in present])
        similarity = np.exp([c / settings.temperature for _, c in present])
        falling = np.array([1 / (2 + rank) for rank in range(len(present))])
        weights = falling if settings.fusion == "rank" else similarity
        weights = torch.tensor(weights / weights.sum(), dtype=torch.float32)
        if settings.fusion == "ensemble":
            logits.append(sum(w * system.model(image, token[None]) for w, token in zip(weights, tokens, strict=True)))
        else:
            logits.append(system.model(image, (weights @ tokens)[None]))
    return torch.cat(logits)


@pytest.mark.parametrize("fusion", ["ensemble", "softmax", "rank"])
@pytest.mark.parametrize("k", [1, 4, 6])
@torch.no_grad()
def test_answers_equal_those_of_a_slow_loop(munkey_system, samples, params, inference, fusion, k):
    settings, neighbours = inference(fusion=fusion, k=k), found(munkey_system.memory)
    expected = answered_slowly(munkey_system, inputs(samples, params.data), neighbours, settings)
    logits = predict(munkey_system, samples, params.data, "cpu", neighbours, settings)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fusion", ["ensemble", "softmax", "rank"])
@torch.no_grad()
def test_a_memory_with_fewer_rows_than_k_answers_with_what_it_has(munkey_system, samples, params, inference, fusion):
    left = System("munkey", MUNKEY, munkey_system.model, munkey_system.memory.forget(np.array([10, 14, 16, 20])))
    settings, neighbours = inference(fusion=fusion, k=4), found(left.memory)
    assert (neighbours[0][:, 2:] == NOBODY).all()
    expected = answered_slowly(left, inputs(samples, params.data), neighbours, settings)
    logits = predict(left, samples, params.data, "cpu", neighbours, settings)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fusion", ["ensemble", "softmax", "rank"])
@torch.no_grad()
def test_an_empty_memory_answers_with_the_null_token(munkey_system, samples, params, inference, fusion):
    empty = System("munkey", MUNKEY, munkey_system.model, munkey_system.memory.forget(munkey_system.memory.ids.numpy()))
    logits = predict(empty, samples, params.data, "cpu", found(empty.memory), inference(fusion=fusion))
    dropped = torch.ones(7, dtype=torch.bool)
    expected = munkey_system.model(inputs(samples, params.data), torch.zeros(7, 5), token_dropped=dropped)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_a_retained_sample_answers_from_its_own_token_and_a_forgotten_one_does_not(
    munkey_system, samples, params, inference
):
    memory = munkey_system.memory
    memory = type(memory)(memory.ids, torch.from_numpy(QUERIES[:6]), memory.tokens)  # each member's key is its own
    whole = System("munkey", MUNKEY, munkey_system.model, memory)
    left = System("munkey", MUNKEY, munkey_system.model, memory.forget(np.array([14])))
    own = pathway_logits(whole, image_set(6, side=10), params.data, "cpu")["both"]
    alone = inference(k=1)
    np.testing.assert_allclose(
        predict(whole, samples, params.data, "cpu", found(memory), alone)[:6], own, rtol=1e-4, atol=1e-5
    )
    after = predict(left, samples, params.data, "cpu", found(left.memory), alone)[:6]
    same = np.isclose(after, own, rtol=1e-3, atol=1e-3).all(axis=1)
    assert same.tolist() == [True, True, False, True, True, True]


@pytest.mark.parametrize("kind", ["munkey", "knn"])
def test_a_neighbour_that_was_deleted_cannot_answer(munkey_system, samples, params, inference, kind):
    index = knn_index(munkey_system.memory.ids.numpy(), munkey_system.memory.keys.numpy(), np.zeros(6, np.int64), 3)
    whole = {"munkey": munkey_system, "knn": index}[kind]
    stale = found(whole.memory)
    left = System(kind, whole.architecture, whole.model, whole.memory.forget(np.array([14])))
    with pytest.raises(KeyError, match="14"):
        predict(left, samples, params.data, "cpu", stale, inference(k=6))


def test_predictions_do_not_depend_on_how_samples_are_batched(munkey_system, samples, params, inference, monkeypatch):
    given = samples, params.data, "cpu", found(munkey_system.memory), inference()
    at_once, cut_at_once = predict(munkey_system, *given), pathway_logits(munkey_system, image_set(6), *given[1:3])
    monkeypatch.setattr(evaluate, "BATCH", 3)
    np.testing.assert_allclose(predict(munkey_system, *given), at_once, rtol=1e-4, atol=1e-5)
    cut = pathway_logits(munkey_system, image_set(6), *given[1:3])
    for name, expected in cut_at_once.items():
        np.testing.assert_allclose(cut[name], expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_vit_answers_from_the_resized_image_alone(samples, params):
    vit = lively(models.build("vit", VIT, generator()))
    logits = predict(System("vit", VIT, vit, None), samples, params.data, "cpu")
    np.testing.assert_allclose(logits, vit(inputs(samples, params.data)), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_pathways_are_cut_as_their_names_say(munkey_system, params):
    members = image_set(6, side=10)
    model, tokens, images = munkey_system.model, munkey_system.memory.tokens, inputs(members, params.data)
    yes, no = torch.ones(6, dtype=torch.bool), torch.zeros(6, dtype=torch.bool)
    cut = pathway_logits(munkey_system, members, params.data, "cpu")
    for name, expected in {
        "image": model(images, tokens, no, yes),
        "token": model(images, tokens, yes, no),
        "both": model(images, tokens, no, no),
    }.items():
        np.testing.assert_allclose(cut[name], expected, rtol=1e-4, atol=1e-5)


# KNN: labels 0, 1, 1, 2, 2 under ids 0 to 4


def knn(ids):
    memory = knn_index(np.arange(5), unit_rows(5, 4), np.array([0, 1, 1, 2, 2]), classes=3).memory
    return np.exp(knn_logits(memory, memory.rows(np.array([ids])))[0].numpy())


@pytest.mark.parametrize(
    ("neighbours", "shares", "winner"),
    [
        ([0, 1, 2, 3], [1 / 4, 2 / 4, 1 / 4], 1),
        ([3, 1, 4, 2], [KNN_FLOOR, 2 / 4, 2 / 4], 2),  # a tie: class 2 is nearer
        ([1, 3, 4, 2], [KNN_FLOOR, 2 / 4, 2 / 4], 1),
        ([0, 3, 1, 4, 2], [1 / 5, 2 / 5, 2 / 5], 2),  # class 0 is nearest of all, but has fewer votes
        ([1, 2], [KNN_FLOOR, 1, KNN_FLOOR], 1),
        ([4, 0, NOBODY, NOBODY], [1 / 2, KNN_FLOOR, 1 / 2], 2),
    ],
)
def test_knn_gives_each_classs_share_of_the_votes(neighbours, shares, winner):
    probabilities = knn(neighbours)
    np.testing.assert_allclose(probabilities, shares, atol=2 * KNN_FLOOR)
    assert probabilities.argmax() == winner
    assert (probabilities >= 0.99 * KNN_FLOOR).all()


def test_knn_of_an_empty_index_is_finite(samples, params, inference):
    index = knn_index(np.arange(5), unit_rows(5, 4), np.array([0, 1, 1, 2, 2]), classes=3)
    empty = System("knn", index.architecture, None, index.memory.forget(np.arange(5)))
    logits = predict(empty, samples, params.data, "cpu", found(empty.memory), inference())
    np.testing.assert_allclose(np.exp(logits), KNN_FLOOR, atol=1.1 * KNN_FLOOR)
