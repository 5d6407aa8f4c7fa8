"""To forget is to drop rows of the memory, and nothing else; neighbors weigh as the paper says."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from munkey.core.ids import NO_NEIGHBOR
from munkey.memory.exemplars import (
    ExemplarMemory,
    compute_rank_weights,
    compute_similarity_weights,
    count_passes,
    draw_weights,
    fuse,
)
from tests.conftest import memory_of

IDS = np.array([3, 5, 8, 13, 21])


@given(st.sets(st.sampled_from(IDS.tolist())))
@example(set(IDS.tolist()))
def test_forgetting_drops_exactly_those_rows(ids):
    memory = memory_of(IDS)
    remaining = memory.forget(np.array(sorted(ids), dtype=np.int64))
    rows = np.flatnonzero(~np.isin(IDS, list(ids)))
    assert torch.equal(remaining.ids, memory.ids[rows])
    assert torch.equal(remaining.keys, memory.keys[rows])
    assert torch.equal(remaining.tokens, memory.tokens[rows])


def test_labels_go_and_come_with_their_rows_where_the_memory_has_some():
    memory = memory_of(IDS)
    labeled = ExemplarMemory(memory.ids, memory.keys, memory.tokens, torch.tensor([0, 1, 2, 0, 1]))
    remaining = labeled.forget(np.array([5, 13]))
    assert remaining.labels.tolist() == [0, 2, 1]
    assert memory.forget(np.array([5])).labels is None
    added = remaining.add(np.array([4]), memory.keys[:1], memory.tokens[:1], torch.tensor([9]))
    assert added.labels.tolist() == [0, 9, 2, 1]
    assert remaining.add(np.array([4]), memory.keys[:1], memory.tokens[:1]).labels is None


def test_forgetting_leaves_the_memory_itself_untouched():
    memory = memory_of(IDS)
    same = memory_of(IDS)
    remaining = memory.forget(np.array([5, 13]))
    remaining.tokens.zero_()
    remaining.keys.zero_()
    assert torch.equal(memory.ids, same.ids)
    assert torch.equal(memory.keys, same.keys)
    assert torch.equal(memory.tokens, same.tokens)


def test_the_tokens_that_remain_are_no_parameters():
    memory = memory_of(IDS)
    trained = ExemplarMemory(memory.ids, memory.keys, torch.nn.Parameter(memory.tokens))
    remaining = trained.forget(np.array([5]))
    assert not remaining.tokens.requires_grad
    assert remaining.tokens.is_leaf  # no graph leads back to what was forgotten


@pytest.mark.parametrize("ids", [[4], [3, 4], [22], [-1]])
def test_an_id_that_is_not_in_the_memory_cannot_be_forgotten(ids):
    with pytest.raises(KeyError, match=str(ids[-1])):
        memory_of(IDS).forget(np.array(ids))


@pytest.mark.parametrize("new_ids", [[30, 22], [4, 40], []])
def test_added_rows_stand_by_id_with_their_keys_and_tokens(new_ids):
    memory = memory_of(IDS)
    added = memory_of(np.array([1, 2]), seed=1)
    keys = added.keys[: len(new_ids)]
    tokens = added.tokens[: len(new_ids)]
    rows = {}
    for row_id, key, token in zip(
        [*IDS, *new_ids], [*memory.keys, *keys], [*memory.tokens, *tokens], strict=True
    ):
        rows[int(row_id)] = key, token
    for _ in range(2):  # a second addition to the same memory does not see the first
        extended = memory.add(np.array(new_ids, dtype=np.int64), keys, tokens)
        assert extended.ids.tolist() == sorted(rows)
        for row_id, key, token in zip(
            extended.ids.tolist(), extended.keys, extended.tokens, strict=True
        ):
            assert torch.equal(key, rows[row_id][0])
            assert torch.equal(token, rows[row_id][1])
    assert memory.ids.tolist() == IDS.tolist()


def test_an_id_that_is_in_the_memory_cannot_be_added():
    memory = memory_of(IDS)
    with pytest.raises(ValueError, match="8"):
        memory.add(np.array([30, 8]), memory.keys[:2], memory.tokens[:2])


def test_an_id_has_its_row_and_no_neighbor_has_none():
    memory = memory_of(IDS)
    rows = memory.find_rows(np.array([[21, 3], [NO_NEIGHBOR, 8]]))
    assert rows.tolist() == [[4, 0], [NO_NEIGHBOR, 2]]
    with pytest.raises(KeyError, match="4"):
        memory.find_rows(np.array([3, 4]))


def test_tokens_are_read_by_id_and_not_by_position():
    memory = memory_of(IDS)
    assert torch.equal(memory.find_tokens(np.array([21, 5])), memory.tokens[[4, 1]])
    with pytest.raises(KeyError, match="4"):
        memory.find_tokens(np.array([4]))


@pytest.mark.parametrize("ids", [[1, 1], [2, 1]])
def test_ids_must_ascend(ids):
    with pytest.raises(ValueError, match="ascend"):
        ExemplarMemory(torch.tensor(ids), torch.ones(2, 4), torch.ones(2, 5))


@pytest.mark.parametrize("counts", [(2, 3, 2), (2, 2, 3), (3, 2, 2)])
def test_ids_keys_and_tokens_must_be_equal_in_number(counts):
    ids, keys, tokens = counts
    with pytest.raises(ValueError, match=f"{ids} ids, {keys} keys .*{tokens} tokens"):
        ExemplarMemory(torch.arange(ids), torch.ones(keys, 4), torch.ones(tokens, 5))


def test_similarity_weights_are_a_softmax_of_cosines_over_the_temperature():
    weights = compute_similarity_weights(
        torch.tensor([[0.9, 0.8, -1.0]]), torch.ones(1, 3, dtype=torch.bool), 0.1
    )
    scores = np.exp([9.0, 8.0, -10.0])
    np.testing.assert_allclose(weights[0], scores / scores.sum(), rtol=1e-5)


def test_rank_weights_fall_as_one_over_two_plus_rank():
    weights = compute_rank_weights(torch.ones(1, 4, dtype=torch.bool))
    np.testing.assert_allclose(weights[0], np.array([30, 20, 15, 12]) / 77, rtol=1e-6)


def test_absent_neighbors_weigh_nothing_and_do_not_change_the_weights_of_others():
    cosines = torch.tensor([[0.9, 0.7, 0.0, 0.0]])
    present = torch.tensor([[True, True, False, False]])
    by_similarity = compute_similarity_weights(cosines, present, 0.07)
    by_rank = compute_rank_weights(present)
    assert by_similarity[0, 2:].tolist() == by_rank[0, 2:].tolist() == [0, 0]
    torch.testing.assert_close(
        by_similarity[:, :2], compute_similarity_weights(cosines[:, :2], present[:, :2], 0.07)
    )
    np.testing.assert_allclose(by_rank[0, :2], [3 / 5, 2 / 5], rtol=1e-6)


def test_without_neighbors_all_weights_are_zero():
    none_present = torch.zeros(1, 4, dtype=torch.bool)
    assert not compute_similarity_weights(torch.zeros(1, 4), none_present, 0.07).any()
    assert not compute_rank_weights(none_present).any()
    assert not draw_weights(torch.zeros(1, 4), torch.zeros(1)).any()


def test_a_neighbor_is_drawn_from_its_share_of_the_quantiles():
    """Shares of 1/4, none, 1/2 and 1/4; the last neighbor is absent. Weights need not sum to 1."""
    weights = torch.tensor([[0.25, 0.0, 0.5, 0.25, 0.0]]).expand(6, -1)
    quantiles = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-24])
    expected = torch.nn.functional.one_hot(torch.tensor([0, 0, 2, 2, 3, 3]), 5).float()
    for scale in (1, 3):
        assert torch.equal(draw_weights(scale * weights, quantiles), expected)


# of one query with two neighbors present
TOKENS = torch.tensor([[[1.0, 0.0], [3.0, 6.0], [9.0, 9.0]]])
# at a temperature of 0.5: scores 2 and 1
COSINES = torch.tensor([[0.5 * np.log(2), 0.0, 0.0]], dtype=torch.float32)
PRESENT = torch.tensor([[True, True, False]])


def test_an_ensemble_reads_every_token_in_a_pass_of_its_own(inference):
    tokens, weights = fuse(TOKENS, COSINES, PRESENT, inference(fusion="ensemble"))
    assert torch.equal(tokens, TOKENS)
    np.testing.assert_allclose(weights, [[2 / 3, 1 / 3, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("fusion", "average"), [("softmax", [5 / 3, 2]), ("rank", [9 / 5, 12 / 5])]
)
def test_the_other_fusions_read_one_average_token(inference, fusion, average):
    tokens, weights = fuse(TOKENS, COSINES, PRESENT, inference(fusion=fusion))
    np.testing.assert_allclose(tokens, [[average]], rtol=1e-6)
    assert weights.tolist() == [[1.0]]


def test_an_ensemble_takes_a_pass_for_each_neighbor_and_the_others_one(inference):
    for fusion, passes in {"ensemble": 6, "softmax": 1, "rank": 1}.items():
        assert count_passes(inference(fusion=fusion, k=6)) == passes
