"""What is trained anew for a stream of requests: with keys where it has a memory, and on what is left alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.encoders import keys
from munkey.models.family import FAMILIES, Family, Training
from munkey.studies.streams import jobs
from munkey.studies.streams.stream import StreamEvaluation, StreamEvaluator, draw_stream
from tests.conftest import ROOT
from tests.jobs.inputs import keyed, prepared


@pytest.mark.parametrize(
    "family", [each for each in FAMILIES.values() if each.learns], ids=lambda each: each.name
)
def test_an_oracle_of_a_stream_has_the_keys_of_what_is_left_where_its_family_has_a_memory(
    family: Family, tmp_path, monkeypatch
):
    trainings = []

    def train(_: Family, training: Training) -> SimpleNamespace:
        trainings.append(training)
        return SimpleNamespace(system=None)

    monkeypatch.setattr(type(family), "train", train)
    monkeypatch.setattr(StreamEvaluator, "predict_logits", lambda *_: np.zeros((1, 3)))
    dataset = prepared(tmp_path / "data")
    held = keys.read(keyed(tmp_path, dataset, 6)[0], dataset.ids) if family.has_memory else None
    evaluator = StreamEvaluator(
        dataset, held, yaml.safe_load((ROOT / "params.yaml").read_text()), 6, "cpu"
    )
    train = dataset.get_ids("train")
    order = draw_stream(forget_sets.ForgetSplit(train[20:], train[:20]), train[:0], 4, [], Stage(0))
    moments = list(jobs._retrain_stream(order, evaluator, family.oracle, "digits", 0))
    assert [each.done for each in moments] == [1, 2, 4]
    for moment, training in zip(moments, trainings, strict=True):
        left = order.get_members(moment.done)
        assert np.array_equal(training.samples.ids, left)
        assert (training.members is not None) == family.has_memory
        if training.members:
            assert np.array_equal(training.members.keys, held.keys[dataset.rows(left)])


def test_a_moments_accuracies_are_of_what_is_left_and_of_the_test_split(tmp_path):
    dataset = prepared(tmp_path)
    train, test = dataset.get_ids("train"), dataset.get_ids("test")
    order = draw_stream(forget_sets.ForgetSplit(train[20:], train[:20]), train[:0], 4, [], Stage(0))
    right = np.isin(dataset.ids, [*order.get_members(2)[:3], test[0]])
    moment = StreamEvaluation(
        2, 0.5, np.eye(10)[np.where(right, dataset.labels, (dataset.labels + 1) % 10)]
    )
    assert jobs._measure_moment(dataset, order, moment) == {
        **{"done": 2, "seconds": 0.5},
        **{
            "RA": pytest.approx(300 / len(order.get_members(2))),
            "TA": pytest.approx(100 / len(test)),
        },
    }
