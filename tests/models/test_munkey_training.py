"""The memory in training: which token receives gradient, what stands in for it, and what is dropped how often."""

import math
from typing import get_args

import numpy as np
import pytest
import torch

from munkey.core.ids import NO_NEIGHBOR
from munkey.memory.neighbors import Neighbors
from munkey.models.families.munkey import Draw, Exemplars
from munkey.models.family import FAMILIES, MemberKeys, Training
from munkey.settings import Fusion
from tests.conftest import image_set, unit_rows
from tests.models.inputs import STAGE, member_keys, quiet, recipe, trained

IDS = 10 + 2 * np.arange(8)
AGGREGATIONS = pytest.mark.parametrize("aggregation", get_args(Fusion))


@pytest.fixture
def exemplars(params):
    """Exemplars of eight samples, four neighbors each; keyword arguments replace MUNKEY's settings."""

    def make(members=None, ids=IDS, stage=STAGE, **changes):
        settings = type(params.munkey).model_validate(params.munkey.model_dump() | changes)
        return Exemplars(ids, members or member_keys(ids), settings, stage, "cpu")

    return make


def draw(retrieved, neighbors, quantile=None):
    """A draw that drops nothing."""
    retrieved = torch.as_tensor(retrieved)
    dropped = torch.zeros(len(retrieved), dtype=torch.bool)
    quantile = torch.zeros(len(retrieved)) if quantile is None else torch.as_tensor(quantile)
    return Draw(dropped, dropped, retrieved, torch.as_tensor(neighbors), quantile)


def nearest_others(exemplars, member, count):
    """Rows and cosines of a sample's nearest others, found anew."""
    cosines = (exemplars.memory.keys @ exemplars.memory.keys[member]).double()
    cosines[member] = -torch.inf
    rows = cosines.argsort(descending=True)[:count]
    return rows, cosines[rows]


@AGGREGATIONS
def test_a_token_in_a_mixed_batch_learns_from_its_own_sample_alone(exemplars, aggregation):
    """All eight are in the batch, so every stand-in is also some other sample's own token."""
    memory = exemplars(aggregation=aggregation)
    index = torch.arange(8)
    retrieved = index % 2 == 0
    memory.choose_tokens(index, draw(retrieved, [4] * 8)).sum().backward()
    assert torch.equal(memory.tokens.grad, (~retrieved).float()[:, None].expand(8, 5))


def test_the_stand_in_is_the_similarity_weighted_average_of_the_nearest_others(exemplars):
    part = exemplars(temperature=0.3)
    stand_ins = part.choose_tokens(torch.tensor([2, 5]), draw([True, True], [2, 3]))
    for stand_in, member, count in zip(stand_ins, (2, 5), (2, 3), strict=True):
        rows, cosines = nearest_others(part, member, count)
        weights = (cosines / 0.3).softmax(dim=0).float()
        torch.testing.assert_close(stand_in, weights @ part.tokens.detach()[rows])


def test_a_stand_in_by_rank_is_the_average_that_inference_by_rank_reads(exemplars):
    part = exemplars(aggregation="rank")
    stand_ins = part.choose_tokens(torch.tensor([2, 5]), draw([True, True], [2, 3]))
    for stand_in, member, weights in zip(
        stand_ins, (2, 5), ([3 / 5, 2 / 5], [6 / 13, 4 / 13, 3 / 13]), strict=True
    ):
        rows, _ = nearest_others(part, member, len(weights))
        torch.testing.assert_close(stand_in, torch.tensor(weights) @ part.tokens.detach()[rows])


def test_an_ensembles_stand_in_is_one_of_the_nearest_others_as_often_as_its_weight_says(
    exemplars,
):
    part = exemplars(aggregation="ensemble", temperature=0.3)
    count = 20_000
    rows, cosines = nearest_others(part, 5, 3)
    drawn = part.draw(count)
    draws = draw([True] * count, [3] * count, drawn.quantile)
    stand_ins = part.choose_tokens(torch.full((count,), 5), draws)
    shares = [
        (stand_ins == token).all(dim=1).double().mean().item()
        for token in part.tokens.detach()[rows]
    ]
    assert sum(shares) == 1  # nothing but these three
    np.testing.assert_allclose(shares, (cosines / 0.3).softmax(dim=0), atol=0.015)


@AGGREGATIONS
def test_an_ensemble_draws_one_more_number_for_each_sample_than_averages(exemplars, aggregation):
    part = exemplars(aggregation=aggregation, p_image=0.3, p_token=0.2, neighbors=[2, 4])
    source = (STAGE / "pathways").torch_generator()
    for _ in range(2):  # batches
        drawn = part.draw(50)
        mask = torch.rand(50, generator=source)
        retrieved = torch.rand(50, generator=source)
        assert torch.equal(drawn.image_dropped, mask < 0.3)
        assert torch.equal(drawn.token_dropped, (mask >= 0.3) & (mask < 0.5))
        assert torch.equal(drawn.retrieved, retrieved < part.settings.p_retrieve)
        assert torch.equal(drawn.neighbors, torch.randint(2, 5, (50,), generator=source))
        quantile = (
            torch.rand(50, generator=source) if aggregation == "ensemble" else torch.zeros(50)
        )
        assert torch.equal(drawn.quantile, quantile)


@AGGREGATIONS
def test_each_aggregation_trains_a_different_model(params, aggregation):
    def train(**settings):
        return trained(recipe(params, "munkey", **settings), "munkey").system

    usual = train(p_retrieve=1.0).memory
    other = train(p_retrieve=1.0, aggregation=aggregation).memory
    assert torch.equal(usual.tokens, other.tokens)  # no gradient reaches them
    usual = train().model
    other = train(aggregation=aggregation).model
    assert params.munkey.aggregation == "softmax"
    assert torch.equal(usual.head.weight, other.head.weight) == (aggregation == "softmax")


def test_a_sample_that_is_not_retrieved_gets_its_own_token(exemplars):
    part = exemplars()
    own_tokens = part.choose_tokens(torch.tensor([2, 5]), draw([False, False], [4, 4]))
    assert torch.equal(own_tokens, part.tokens[[2, 5]])


def test_the_stand_in_in_a_memory_of_two_is_the_other_token(exemplars):
    """Even where it points away: a neighbor that is absent, with a cosine of 0, would weigh more."""
    keys = unit_rows(1, 4) * np.array([[1], [-1]], dtype=np.float32)
    cosines = np.array([[-1, 0, 0, 0]] * 2, dtype=np.float32)
    near = Neighbors(np.array([[4, *[NO_NEIGHBOR] * 3], [3, *[NO_NEIGHBOR] * 3]]), cosines)
    part = exemplars(MemberKeys(keys, near), ids=np.array([3, 4]))
    assert part.neighbors.tolist() == [
        [1, NO_NEIGHBOR, NO_NEIGHBOR, NO_NEIGHBOR],
        [0, NO_NEIGHBOR, NO_NEIGHBOR, NO_NEIGHBOR],
    ]
    torch.testing.assert_close(
        part.choose_tokens(torch.tensor([0, 1]), draw([True, True], [4, 4])),
        part.tokens.detach()[[1, 0]],
    )


@pytest.mark.parametrize(
    ("p_image", "p_token", "p_retrieve"), [(0.3, 0.1, 0.2), (0.1, 0.9, 0.5), (0, 0, 0), (0, 1, 1)]
)
def test_pathways_are_dropped_as_often_as_their_probabilities_say_and_never_both(
    exemplars, p_image, p_token, p_retrieve
):
    count = 40_000
    image, token, retrieved, *_ = exemplars(
        p_image=p_image, p_token=p_token, p_retrieve=p_retrieve
    ).draw(count)
    assert not (image & token).any()
    for drawn, p in ((image, p_image), (token, p_token), (retrieved, p_retrieve)):
        assert drawn.float().mean().item() == pytest.approx(
            p, abs=4 * math.sqrt(p * (1 - p) / count) + 1e-9
        )


def test_a_memory_has_the_ids_the_keys_and_the_tokens_that_learn(exemplars):
    part = exemplars()
    np.testing.assert_array_equal(part.memory.ids, IDS)
    np.testing.assert_array_equal(part.memory.keys, unit_rows(8, 4))
    assert part.memory.tokens is part.tokens
    assert part.tokens.requires_grad


def test_the_tokens_of_direct_key_share_no_storage_with_the_keys(exemplars):
    """Otherwise whoever changed the one in place would change the other."""
    part = exemplars(architecture="direct-key")
    with torch.no_grad():
        part.tokens.zero_()
    np.testing.assert_array_equal(part.memory.keys, unit_rows(8, 4))


def test_munkey_is_not_trained_without_keys_and_neighbors(params):
    with pytest.raises(ValueError, match="keys and neighbors"):
        FAMILIES["munkey"].train(Training(image_set(4), 3, recipe(params, "munkey"), "cpu", quiet))
