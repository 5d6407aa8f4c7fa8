"""KNN answers with the votes of its neighbors; its index is made of keys and labels, and forgets by dropping rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from munkey.core.ids import NO_NEIGHBOR
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import Neighbors, find_nearest
from munkey.models.families.knn import MIN_PROBABILITY
from munkey.models.family import FAMILIES, Retrieval, forget_samples
from tests.conftest import unit_rows
from tests.models.inputs import QUERIES, answered, fitted


def index(**settings):
    """Labels 0, 1, 1, 2, 2 under ids 0 to 4."""
    return fitted("knn", Keys(np.arange(5), unit_rows(5, 4)), [0, 1, 1, 2, 2], **settings)


def votes(system, ids, cosines=None):
    """The probabilities of one query with these neighbors."""
    cosines = np.zeros(len(ids)) if cosines is None else np.array(cosines)
    near = Neighbors(np.array([ids]), cosines[None].astype(np.float32))
    return np.exp(answered(system, None, Retrieval(near))[0])


def test_the_index_holds_labels_as_tokens():
    keys = unit_rows(3, 4)
    system = fitted("knn", Keys(np.array([3, 5, 9]), keys), [0, 2, 1])
    assert system.memory.tokens.tolist() == [[0], [2], [1]]
    assert system.memory.ids.tolist() == [3, 5, 9]
    np.testing.assert_array_equal(system.memory.keys, keys)
    assert (system.family, system.model, system.architecture.classes) == ("knn", None, 3)


@pytest.mark.parametrize(
    ("neighbors", "shares", "winner"),
    [
        ([0, 1, 2, 3], [1 / 4, 2 / 4, 1 / 4], 1),
        ([3, 1, 4, 2], [MIN_PROBABILITY, 2 / 4, 2 / 4], 2),  # a tie: class 2 is nearer
        ([1, 3, 4, 2], [MIN_PROBABILITY, 2 / 4, 2 / 4], 1),
        # class 0 is nearest of all, but has fewer votes
        ([0, 3, 1, 4, 2], [1 / 5, 2 / 5, 2 / 5], 2),
        ([1, 2], [MIN_PROBABILITY, 1, MIN_PROBABILITY], 1),
        ([4, 0, NO_NEIGHBOR, NO_NEIGHBOR], [1 / 2, MIN_PROBABILITY, 1 / 2], 2),
    ],
)
def test_each_class_gets_its_share_of_the_votes(neighbors, shares, winner):
    probabilities = votes(index(k=5), neighbors)
    np.testing.assert_allclose(probabilities, shares, atol=2 * MIN_PROBABILITY)
    assert probabilities.argmax() == winner
    assert (probabilities >= 0.99 * MIN_PROBABILITY).all()


def test_votes_by_rank_weigh_1_over_2_plus_rank_and_votes_by_similarity_a_softmax():
    """Neighbors of the classes 0, 1, 1, and one that is not there."""
    ids = [0, 1, 2, NO_NEIGHBOR]
    cosines = [0.9, 0.8, 0.7, 0.0]
    first = (1 / 2) / (1 / 2 + 1 / 3 + 1 / 4)
    np.testing.assert_allclose(
        votes(index(vote="rank"), ids, cosines),
        [first, 1 - first, MIN_PROBABILITY],
        atol=2 * MIN_PROBABILITY,
    )
    first = 1 / (1 + np.exp(-1) + np.exp(-2))
    soft = votes(index(vote="similarity", temperature=0.1), ids, cosines)
    np.testing.assert_allclose(soft, [first, 1 - first, MIN_PROBABILITY], atol=2 * MIN_PROBABILITY)


def test_only_the_k_nearest_vote():
    """Of the neighbors 3, 4, 1, 2 the first two or all four."""
    for k, shares in (
        (2, [MIN_PROBABILITY, MIN_PROBABILITY, 1]),
        (4, [MIN_PROBABILITY, 1 / 2, 1 / 2]),
    ):
        np.testing.assert_allclose(
            votes(index(k=k), [3, 4, 1, 2]), shares, atol=2 * MIN_PROBABILITY
        )


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": 101}, {"vote": "loud"}])
def test_invalid_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        index(**wrong)


@pytest.mark.parametrize("vote", ["equal", "similarity", "rank"])
def test_an_emptied_index_gives_every_class_the_same_tiny_probability(vote):
    whole = index(vote=vote)
    empty = replace(whole, memory=whole.memory.forget(np.arange(5)))
    near = find_nearest(QUERIES, Keys(np.arange(0), unit_rows(0, 4)), 6)
    logits = answered(empty, None, Retrieval(near))
    assert logits.shape == (7, 3)
    np.testing.assert_allclose(np.exp(logits), MIN_PROBABILITY, atol=1.1 * MIN_PROBABILITY)


def test_a_neighbor_that_was_deleted_cannot_answer():
    with pytest.raises(KeyError, match="3"):
        votes(forget_samples(index(), np.array([3])), [0, 3])


def test_a_knn_has_no_weights_and_no_training():
    with pytest.raises(TypeError, match="no weights"):
        FAMILIES["knn"].build(index().architecture, torch.Generator())
    with pytest.raises(TypeError, match="not trained"):
        FAMILIES["knn"].train(None)
    with pytest.raises(TypeError, match="no training recipe"):
        FAMILIES["knn"].make_architecture(None, 3)
    with pytest.raises(ValueError, match="no weights"):
        index().copy_model()
