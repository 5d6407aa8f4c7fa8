"""The trainings of a stream of requests: on remaining samples alone, with their keys for a memory."""

from types import SimpleNamespace

import numpy as np
import pytest

from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.encoders import keys
from munkey.models.family import FAMILIES, Family, Training
from munkey.studies.streams import jobs
from munkey.studies.streams.stream import StreamEvaluation, StreamEvaluator, draw_stream
from tests.conftest import read_config
from tests.jobs.inputs import prepare_dataset, write_keys

LEARNING = [family for family in FAMILIES.values() if family.learns]


@pytest.mark.parametrize("family", LEARNING, ids=lambda family: family.name)
def test_an_oracle_of_a_stream_has_the_keys_of_remaining_samples_if_its_family_has_a_memory(
    family: Family, tmp_path, monkeypatch
):
    trainings = []

    def train(_: Family, training: Training) -> SimpleNamespace:
        trainings.append(training)
        return SimpleNamespace(system=None)

    monkeypatch.setattr(type(family), "train", train)
    monkeypatch.setattr(StreamEvaluator, "predict_logits", lambda *_: np.zeros((1, 3)))
    dataset = prepare_dataset(tmp_path / "data")
    all_keys = None
    if family.has_memory:
        keyfile, _ = write_keys(tmp_path, dataset, 6)
        all_keys = keys.read(keyfile, dataset.ids)
    params = read_config()
    evaluator = StreamEvaluator(dataset, all_keys, params, 6, "cpu")
    train = dataset.get_ids("train")
    order = draw_stream(forget_sets.ForgetSplit(train[20:], train[:20]), train[:0], 4, [], Stage(0))
    moments = list(jobs._retrain_stream(order, evaluator, family.oracle, "digits", 0, None))
    assert [moment.done for moment in moments] == [1, 2, 4]
    for moment, training in zip(moments, trainings, strict=True):
        remaining = order.get_members(moment.done)
        assert np.array_equal(training.samples.ids, remaining)
        assert (training.members is not None) == family.has_memory
        if training.members:
            rows = dataset.rows(remaining)
            assert np.array_equal(training.members.keys, all_keys.keys[rows])


def test_the_accuracies_of_a_moment_are_those_of_remaining_and_test_samples(tmp_path):
    dataset = prepare_dataset(tmp_path)
    train = dataset.get_ids("train")
    test = dataset.get_ids("test")
    order = draw_stream(forget_sets.ForgetSplit(train[20:], train[:20]), train[:0], 4, [], Stage(0))
    is_right = np.isin(dataset.ids, [*order.get_members(2)[:3], test[0]])
    answers = np.where(is_right, dataset.labels, (dataset.labels + 1) % 10)
    moment = StreamEvaluation(2, 0.5, np.eye(10)[answers])
    assert jobs._measure_moment(dataset, order, moment) == {
        "done": 2,
        "seconds": 0.5,
        "RA": pytest.approx(300 / len(order.get_members(2))),
        "TA": pytest.approx(100 / len(test)),
    }
