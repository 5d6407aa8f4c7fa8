"""MUNKEY's retrieval and late fusion equal a slow loop that follows the paper's words; nothing deleted can answer."""

import math
import operator
from dataclasses import replace

import numpy as np
import pytest
import torch

from munkey.core.ids import NO_NEIGHBOR
from munkey.models.family import FAMILIES
from tests.conftest import image_set
from tests.models.inputs import DATA, QUERIES, answered, normalized, retrieval, seven_samples

FUSIONS = pytest.mark.parametrize("fusion", ["ensemble", "softmax", "rank"])
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def _several_blocks(monkeypatch):
    """Seven samples are several blocks, of several samples each unless a sample takes many passes."""
    monkeypatch.setattr("munkey.models.forward.PASSES", 3)


def without(system, *ids):
    """The system after these samples were deleted."""
    return replace(system, memory=system.memory.forget(np.array(ids)))


def emptied(system):
    return without(system, *system.memory.ids.tolist())


def answered_slowly(system, images, queries):
    """One query, one neighbor, one pass at a time."""
    logits = []
    settings = queries.settings
    for image, ids, cosines in zip(images[:, None], *queries.neighbors, strict=True):
        tokens = []
        weights = []
        for rank in range(settings.k):
            if ids[rank] == NO_NEIGHBOR:
                continue
            tokens.append(system.memory.tokens[system.memory.ids == ids[rank]])
            by_similarity = math.exp(cosines[rank] / settings.temperature)
            weights.append(1 / (2 + rank) if settings.fusion == "rank" else by_similarity)
        shares = np.array(weights, np.float32) / sum(weights)
        if settings.fusion == "ensemble":
            passes = [system.model(image, token) for token in tokens]
            logits.append(sum(map(operator.mul, shares.tolist(), passes)))
        else:
            mean_token = sum(map(operator.mul, shares.tolist(), tokens))
            logits.append(system.model(image, mean_token))
    return torch.cat(logits)


@FUSIONS
@pytest.mark.parametrize("k", [1, 4, 6])
@torch.no_grad()
def test_answers_equal_those_of_a_slow_loop(munkey_system, inference, fusion, k):
    samples = seven_samples()
    queries = retrieval(munkey_system.memory, inference(fusion=fusion, k=k))
    logits = answered(munkey_system, samples, queries)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(
        logits, answered_slowly(munkey_system, normalized(samples), queries), **CLOSE
    )


@FUSIONS
@torch.no_grad()
def test_a_memory_with_fewer_rows_than_k_answers_with_all_its_rows(
    munkey_system, inference, fusion
):
    samples = seven_samples()
    remaining = without(munkey_system, 10, 14, 16, 20)
    queries = retrieval(remaining.memory, inference(fusion=fusion, k=4))
    assert (queries.neighbors.ids[:, 2:] == NO_NEIGHBOR).all()
    np.testing.assert_allclose(
        answered(remaining, samples, queries),
        answered_slowly(remaining, normalized(samples), queries),
        **CLOSE,
    )


@FUSIONS
@torch.no_grad()
def test_an_empty_memory_answers_with_the_null_token(munkey_system, inference, fusion):
    samples = seven_samples()
    empty = emptied(munkey_system)
    logits = answered(empty, samples, retrieval(empty.memory, inference(fusion=fusion)))
    dropped = torch.ones(7, dtype=torch.bool)
    expected = munkey_system.model(normalized(samples), torch.zeros(7, 5), token_dropped=dropped)
    np.testing.assert_allclose(logits, expected, **CLOSE)


def test_a_retained_sample_answers_from_its_own_token_and_a_forgotten_one_does_not(
    munkey_system, inference
):
    """Each member's key is that of the query of the same id."""
    memory = replace(munkey_system.memory, keys=torch.from_numpy(QUERIES.keys[:6]))
    whole = replace(munkey_system, memory=memory)
    remaining = without(whole, 14)
    one = inference(k=1)
    with_own_token = FAMILIES["munkey"].predict_cut_logits(
        whole, image_set(6, side=10), DATA, "cpu"
    )["both"]
    before = answered(whole, seven_samples(), retrieval(whole.memory, one))[:6]
    np.testing.assert_allclose(before, with_own_token, **CLOSE)
    after = answered(remaining, seven_samples(), retrieval(remaining.memory, one))[:6]
    same = np.isclose(after, with_own_token, rtol=1e-3, atol=1e-3).all(axis=1)
    assert same.tolist() == [True, True, False, True, True, True]


def test_a_neighbor_that_was_deleted_cannot_answer(munkey_system, inference):
    stale = retrieval(munkey_system.memory, inference(k=6))
    with pytest.raises(KeyError, match="14"):
        answered(without(munkey_system, 14), seven_samples(), stale)


@torch.no_grad()
def test_the_paths_of_an_audit_cut_what_their_names_say(munkey_system, inference):
    queries = retrieval(munkey_system.memory, inference(fusion="softmax", k=4))
    near = queries.neighbors.truncate(4)
    model = munkey_system.model
    memory = munkey_system.memory
    weights = torch.tensor(near.cosines / queries.settings.temperature).softmax(1)
    tokens = (weights[:, :, None] * memory.tokens[memory.find_rows(near.ids)]).sum(1)
    cut = torch.ones(7, dtype=torch.bool)
    whole = torch.zeros(7, dtype=torch.bool)
    logits = FAMILIES["munkey"].predict_path_logits(
        munkey_system, seven_samples(), DATA, "cpu", queries
    )
    images = normalized(seven_samples())
    for name, dropped in {
        "softmax": (whole, whole),
        "image": (whole, cut),
        "token": (cut, whole),
    }.items():
        np.testing.assert_allclose(logits[name], model(images, tokens, *dropped), **CLOSE)


# Pathways and features of members. They are some of the memory's, in another order, so that rows cannot pass for ids.

SOME = np.array([18, 12, 16, 14])


def some_members():
    members = image_set(6, side=10)
    return replace(
        members, rows=np.array([4, 1, 3, 2]), ids=SOME, labels=members.labels[[4, 1, 3, 2]]
    )


def tokens_of_some(system):
    return system.memory.tokens[[4, 1, 3, 2]]


@torch.no_grad()
def test_pathways_are_cut_as_their_names_say(munkey_system):
    model = munkey_system.model
    tokens = tokens_of_some(munkey_system)
    images = normalized(some_members())
    yes = torch.ones(4, dtype=torch.bool)
    no = torch.zeros(4, dtype=torch.bool)
    cut = FAMILIES["munkey"].predict_cut_logits(munkey_system, some_members(), DATA, "cpu")
    assert list(cut) == ["image", "token", "both"]
    for name, expected in {
        "image": model(images, tokens, no, yes),
        "token": model(images, tokens, yes, no),
        "both": model(images, tokens, no, no),
    }.items():
        np.testing.assert_allclose(cut[name], expected, **CLOSE)
        assert cut[name].dtype == np.float32
        assert cut[name].flags.c_contiguous


@torch.no_grad()
def test_features_are_what_the_head_reads_from_own_image_and_own_token(munkey_system):
    model = munkey_system.model
    images = normalized(some_members())
    patches = model.embed_positions(model.patch_embed(images))
    exemplar = model.adapter(tokens_of_some(munkey_system))[:, None]
    sequence = torch.cat([patches, exemplar], dim=1)
    for block in model.blocks:
        sequence = block(sequence)
    features = FAMILIES["munkey"].extract_features(munkey_system, some_members(), DATA, "cpu")
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, model.norm(sequence)[:, 0], **CLOSE)
    assert not model.head._forward_pre_hooks  # reading leaves nothing behind


@pytest.mark.parametrize("read", ["predict_cut_logits", "extract_features"])
def test_pathways_and_features_are_those_of_members_alone(munkey_system, read):
    with pytest.raises(KeyError, match="18"):
        getattr(FAMILIES["munkey"], read)(without(munkey_system, 18), some_members(), DATA, "cpu")
