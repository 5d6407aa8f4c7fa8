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


def test_each_sample_is_forgotten_once_in_requests_of_equal_size_and_an_order_of_their_own():
    requests = stream().requests
    assert [len(request) for request in requests] == [4, 4, 3, 3, 3, 3]
    assert np.array_equal(np.sort(np.concatenate(requests)), SPLIT.forget)
    assert not np.array_equal(stream(1).requests[0], requests[0]) and np.array_equal(
        stream().requests[0], requests[0]
    )


def test_a_method_may_use_what_is_left_and_what_has_come_before_its_request():
    made = stream()
    assert [len(added) for added in made.added] == [0, 4, 0, 0, 3, 0]
    assert (
        set(made.get_additions(6)) < set(NEW)
        and len(made.get_additions(6)) == 7
        and len(made.get_additions(1)) == 0
    )
    third = made.get_request(3)
    assert np.array_equal(third.forget, made.requests[2])
    later = np.concatenate(made.requests[3:])
    assert set(third.retain) == {*SPLIT.retain, *later, *made.added[1]}
    # what comes after a request is not there before it
    assert set(made.get_request(2).retain) & set(NEW) == set()
    assert set(made.get_members(6)) == set(SPLIT.retain)


def test_more_requests_than_samples_are_refused():
    with pytest.raises(
        ValueError, match=r"cannot divide 20 samples into 21 requests: increase audit\.pool"
    ):
        draw_stream(SPLIT, NEW, 21, [], Stage(0))


def test_a_method_goes_on_from_its_own_result_and_is_asked_after_each_request():
    asked: list[tuple[str, int]] = []

    class Recorder(StreamEvaluator):
        def predict_logits(self, system: System, added: np.ndarray) -> np.ndarray:
            asked.append((system.family, len(added)))
            return np.zeros((1, 2))

    def forget(system: System, split: ForgetSplit, number: int) -> tuple[System, float]:
        assert np.array_equal(split.forget, made.requests[number - 1])
        return System(f"{system.family}{number}", system.architecture, None), 0.5

    made, start = stream(), System("s", None, None)  # type: ignore[arg-type]
    found = evaluate_stream(made, start, forget, Recorder(None, None, {}, 1, "cpu"))  # type: ignore[arg-type]
    assert asked == [
        ("s", 0),
        ("s1", 0),
        ("s12", 4),
        ("s123", 4),
        ("s1234", 4),
        ("s12345", 7),
        ("s123456", 7),
    ]
    assert [(each.done, each.seconds) for each in found] == [
        (0, 0),
        *((number, 0.5) for number in range(1, 7)),
    ]


def make_evaluator(**inference: object) -> StreamEvaluator:
    samples = seven_samples()
    dataset = Dataset(
        samples.images, samples.ids, samples.labels, np.array(["train"] * 7), ["a", "b", "c"]
    )
    return StreamEvaluator(
        dataset, QUERIES, {"data": DATA.model_dump(), "inference": inference}, 4, "cpu"
    )


@pytest.mark.parametrize("name", EXACT)
def test_a_system_is_asked_about_every_sample_with_what_was_added_in_its_memory(name: str):
    evaluator, samples = make_evaluator(), seven_samples()
    part, whole = (
        fitted(name, evaluator.select_keys(samples.ids[:count]), samples.labels[:count])
        for count in (5, 7)
    )
    for system, near, added in ((part, QUERIES.ids[:5], []), (whole, QUERIES.ids, [5, 6])):
        expected = answered(
            system,
            samples,
            Retrieval(find_nearest(QUERIES, evaluator.select_keys(near), 4), None, QUERIES.keys),
        )
        np.testing.assert_array_equal(evaluator.predict_logits(part, samples.ids[added]), expected)


def test_a_memory_is_asked_as_the_parameters_say_and_a_system_without_one_about_its_images(
    munkey_system: System,
):
    knobs = {"k": 2, "fusion": "softmax", "temperature": 0.5}
    evaluator, samples = make_evaluator(**knobs), seven_samples()
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
def test_what_is_fitted_answers_as_if_additions_had_always_been_there(name: str):
    ids, labels = np.arange(40), np.arange(40) % 3
    keys, added = unit_rows(40, 8), np.isin(ids, [3, 7, 39])
    part = fitted(name, Keys(ids[~added], keys[~added]), labels[~added])
    both = FAMILIES[name].add_samples(part, Keys(ids[added], keys[added]), labels[added], None)
    assert same(tensors(both), tensors(fitted(name, Keys(ids, keys), labels)))


def test_what_is_added_to_munkey_has_the_tokens_of_its_neighbors_averaged():
    system, asked = original("munkey"), InferenceSettings(k=2, fusion="softmax", temperature=0.1)
    memory = system.memory
    assert memory is not None
    new = Keys(np.array([1, 999]), memory.keys[[5, 9]].numpy())
    held = FAMILIES["munkey"].add_samples(system, new, np.array([0, 1]), asked).memory
    assert (
        held is not None and len(held) == len(memory) + 2 and held.ids[[0, -1]].tolist() == [1, 999]
    )
    cosines = memory.keys @ memory.keys[5]
    near = cosines.argsort(descending=True)[:2]
    weights = (cosines[near] / 0.1).softmax(dim=0)
    assert torch.allclose(
        held.tokens[0], (weights[:, None] * memory.tokens[near]).sum(dim=0), atol=1e-5
    )
    assert same({"": held.tokens[1:-1]}, {"": memory.tokens})


def test_a_family_without_a_memory_takes_nothing_in():
    system = original("cf")
    assert (
        FAMILIES["vit"].add_samples(
            system, Keys(np.array([1]), unit_rows(1, 4)), np.array([0]), None
        )
        is system
    )
