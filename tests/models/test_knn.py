"""KNN answers with the votes of its neighbors; its index is made of keys and labels, and forgets by dropping rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from munkey.core.ids import NOBODY
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import Neighbors
from munkey.models.families.knn import FLOOR, vote_logits
from munkey.models.family import FAMILIES, Retrieval
from munkey.settings import InferenceSettings
from tests.conftest import unit_rows
from tests.models.inputs import answered, retrieval, seven_samples


def index():
    """Labels 0, 1, 1, 2, 2 under ids 0 to 4."""
    return FAMILIES["knn"].from_keys(Keys(np.arange(5), unit_rows(5, 4)), np.array([0, 1, 1, 2, 2]), 3)


def test_the_index_holds_one_hot_labels_as_tokens():
    keys = unit_rows(3, 4)
    system = FAMILIES["knn"].from_keys(Keys(np.array([3, 5, 9]), keys), np.array([0, 2, 1]), 3)
    assert system.memory.tokens.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert system.memory.ids.tolist() == [3, 5, 9]
    np.testing.assert_array_equal(system.memory.keys, keys)
    assert (system.family, system.model, system.architecture.classes) == ("knn", None, 3)


@pytest.mark.parametrize(
    ("neighbors", "shares", "winner"),
    [
        ([0, 1, 2, 3], [1 / 4, 2 / 4, 1 / 4], 1),
        ([3, 1, 4, 2], [FLOOR, 2 / 4, 2 / 4], 2),  # a tie: class 2 is nearer
        ([1, 3, 4, 2], [FLOOR, 2 / 4, 2 / 4], 1),
        ([0, 3, 1, 4, 2], [1 / 5, 2 / 5, 2 / 5], 2),  # class 0 is nearest of all, but has fewer votes
        ([1, 2], [FLOOR, 1, FLOOR], 1),
        ([4, 0, NOBODY, NOBODY], [1 / 2, FLOOR, 1 / 2], 2),
    ],
)
def test_each_class_gets_its_share_of_the_votes(neighbors, shares, winner):
    memory = index().memory
    probabilities = np.exp(vote_logits(memory, memory.rows(np.array([neighbors])))[0].numpy())
    np.testing.assert_allclose(probabilities, shares, atol=2 * FLOOR)
    assert probabilities.argmax() == winner
    assert (probabilities >= 0.99 * FLOOR).all()


def test_a_class_without_votes_has_a_probability_of_one_in_a_million():
    memory = index().memory
    logits = vote_logits(memory, memory.rows(np.array([[1, 2]])))
    np.testing.assert_allclose(logits, [[-13.815511, 1e-6, -13.815511]], rtol=1e-6, atol=1e-6)


def test_the_k_nearest_vote_and_no_others():
    """Of the neighbors 3, 4, 1, 2 the first two or all four."""
    neighbors = Neighbors(np.array([[3, 4, 1, 2]]), np.zeros((1, 4), np.float32))
    for k, shares in ((2, [FLOOR, FLOOR, 1]), (4, [FLOOR, 1 / 2, 1 / 2])):
        logits = answered(index(), None, FAMILIES["knn"].retrieval(neighbors, {"k": k}))
        np.testing.assert_allclose(np.exp(logits), [shares], atol=2 * FLOOR)


def test_an_emptied_index_gives_every_class_the_same_tiny_probability(inference):
    empty = replace(index(), memory=index().memory.forget(np.arange(5)))
    logits = answered(empty, seven_samples(), retrieval(empty.memory, inference()))
    assert logits.shape == (7, 3)
    np.testing.assert_allclose(np.exp(logits), FLOOR, atol=1.1 * FLOOR)


def test_a_neighbor_that_was_deleted_cannot_answer():
    whole = index()
    stale = Retrieval(
        Neighbors(np.array([[0, 3]]), np.zeros((1, 2), np.float32)),
        InferenceSettings(k=2, fusion="ensemble", temperature=1.0),
    )
    left = replace(whole, memory=whole.memory.forget(np.array([3])))
    with pytest.raises(KeyError, match="3"):
        answered(left, seven_samples(), stale)


def test_it_has_no_weights_and_no_training():
    with pytest.raises(TypeError, match="no weights"):
        FAMILIES["knn"].build(index().architecture, torch.Generator())
    with pytest.raises(TypeError, match="not trained"):
        FAMILIES["knn"].train(None)
    with pytest.raises(ValueError, match="no weights"):
        index().copy_of_model()
