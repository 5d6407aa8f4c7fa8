"""Streams of requests: who is forgotten when, what a method may still use, and what comes in between."""

import numpy as np
import pytest
import torch

from munkey.core.randomness import Stage
from munkey.data.forget_sets import ForgetSplit
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import find_nearest
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.settings import InferenceSettings
from munkey.studies.streams.stream import Stream, StreamEvaluator, draw_stream, evaluate_stream
from tests.conftest import VIT, generator, lively, unit_rows
from tests.models.inputs import DATA, EXACT, QUERIES, answered, fitted, seven_samples
from tests.unlearn.world import original, same, tensors

SPLIT = ForgetSplit(np.arange(100, 150), np.arange(20))
NEW = np.arange(200, 230)


def stream(seed: int = 0) -> Stream:
    return draw_stream(SPLIT, NEW, 6, [2, 5], Stage(seed))


def test_each_sample_is_forgotten_once_in_requests_of_equal_size_and_random_order():
    requests = stream().requests
    assert [len(request) for request in requests] == [4, 4, 3, 3, 3, 3]
    assert np.array_equal(np.sort(np.concatenate(requests)), SPLIT.forget)
    assert not np.array_equal(stream(1).requests[0], requests[0])
    assert np.array_equal(stream().requests[0], requests[0])


def test_a_method_may_use_remaining_samples_and_additions_before_its_request():
    order = stream()
    assert [len(added) for added in order.added] == [0, 4, 0, 0, 3, 0]
    assert set(order.get_additions(6)) < set(NEW)
    assert len(set(order.get_additions(6))) == len(order.get_additions(6)) == 7
    assert len(order.get_additions(1)) == 0
    third = order.get_request(3)
    assert np.array_equal(third.forget, order.requests[2])
    later = np.concatenate(order.requests[3:])
    assert set(third.retain) == {*SPLIT.retain, *later, *order.added[1]}
    # additions after a request are not used for it
    assert set(order.get_request(2).retain) & set(NEW) == set()
    assert set(order.get_members(6)) == set(SPLIT.retain)


def test_more_requests_than_samples_are_refused():
    with pytest.raises(ValueError, match=r"20 samples into 21 requests: .*audit\.pool"):
        draw_stream(SPLIT, NEW, 21, [], Stage(0))


def test_a_method_continues_from_its_own_result_and_is_evaluated_after_each_request():
    queries: list[tuple[str, int]] = []

    class Recorder(StreamEvaluator):
        def predict_logits(self, system: System, added: np.ndarray) -> np.ndarray:
            queries.append((system.family, len(added)))
            return np.zeros((1, 2))

    def forget(system: System, split: ForgetSplit, number: int) -> tuple[System, float]:
        assert np.array_equal(split.forget, order.requests[number - 1])
        return System(f"{system.family}{number}", system.architecture, None), 0.5

    order = stream()
    start = System("s", None, None)
    recorder = Recorder(None, None, {}, 1, "cpu")  # type: ignore[arg-type]
    moments = list(evaluate_stream(order, start, forget, recorder))
    assert queries == [
        ("s", 0),
        ("s1", 0),
        ("s12", 4),
        ("s123", 4),
        ("s1234", 4),
        ("s12345", 7),
        ("s123456", 7),
    ]
    assert [moment.done for moment in moments] == list(range(7))
    assert [moment.seconds for moment in moments] == [0, *[0.5] * 6]


def make_evaluator(**inference: object) -> StreamEvaluator:
    samples = seven_samples()
    splits = np.array(["train"] * 7)
    dataset = Dataset(samples.images, samples.ids, samples.labels, splits, ["a", "b", "c"])
    params = {"data": DATA.model_dump(), "inference": inference}
    return StreamEvaluator(dataset, QUERIES, params, 4, "cpu")


@pytest.mark.parametrize("name", EXACT)
def test_a_system_answers_every_sample_with_additions_in_its_memory(name: str):
    evaluator = make_evaluator()
    samples = seven_samples()
    part = fitted(name, evaluator.select_keys(samples.ids[:5]), samples.labels[:5])
    whole = fitted(name, evaluator.select_keys(samples.ids), samples.labels)
    for system, members, added in ((part, QUERIES.ids[:5], []), (whole, QUERIES.ids, [5, 6])):
        near = find_nearest(QUERIES, evaluator.select_keys(members), 4)
        expected = answered(system, samples, Retrieval(near, None, QUERIES.keys))
        np.testing.assert_array_equal(evaluator.predict_logits(part, samples.ids[added]), expected)


def test_a_memory_is_queried_with_the_parameters_and_a_system_without_one_by_images(
    munkey_system: System,
):
    knobs = {"k": 2, "fusion": "softmax", "temperature": 0.5}
    evaluator = make_evaluator(**knobs)
    samples = seven_samples()
    near = find_nearest(QUERIES, evaluator.select_keys(munkey_system.memory.ids.numpy()), 4)
    expected = answered(munkey_system, samples, Retrieval(near, InferenceSettings(**knobs)))
    np.testing.assert_array_equal(
        evaluator.predict_logits(munkey_system, samples.ids[:0]), expected
    )
    plain = System("vit", VIT, lively(FAMILIES["vit"].build(VIT, generator())))
    np.testing.assert_array_equal(
        evaluator.predict_logits(plain, samples.ids[:3]), answered(plain, samples)
    )


@pytest.mark.parametrize("name", EXACT)
def test_a_fitted_system_answers_as_if_it_was_fitted_with_the_additions(name: str):
    ids = np.arange(40)
    labels = np.arange(40) % 3
    keys = unit_rows(40, 8)
    added = np.isin(ids, [3, 7, 39])
    part = fitted(name, Keys(ids[~added], keys[~added]), labels[~added])
    both = FAMILIES[name].add_samples(part, Keys(ids[added], keys[added]), labels[added], None)
    assert same(tensors(both), tensors(fitted(name, Keys(ids, keys), labels)))


def test_a_sample_added_to_munkey_has_the_mean_of_the_tokens_of_its_neighbors():
    system = original("munkey")
    inference = InferenceSettings(k=2, fusion="softmax", temperature=0.1)
    memory = system.memory
    assert memory is not None
    new = Keys(np.array([1, 999]), memory.keys[[5, 9]].numpy())
    memory_after = FAMILIES["munkey"].add_samples(system, new, np.array([0, 1]), inference).memory
    assert memory_after is not None
    assert len(memory_after) == len(memory) + 2
    assert memory_after.ids[[0, -1]].tolist() == [1, 999]
    cosines = memory.keys @ memory.keys[5]
    near = cosines.argsort(descending=True)[:2]
    weights = (cosines[near] / 0.1).softmax(dim=0)
    assert torch.allclose(
        memory_after.tokens[0], (weights[:, None] * memory.tokens[near]).sum(dim=0), atol=1e-5
    )
    assert same({"": memory_after.tokens[1:-1]}, {"": memory.tokens})


def test_a_family_without_a_memory_adds_no_samples():
    system = original("cf")
    assert (
        FAMILIES["vit"].add_samples(
            system, Keys(np.array([1]), unit_rows(1, 4)), np.array([0]), None
        )
        is system
    )
