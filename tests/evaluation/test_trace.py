"""What is noted of a training, by epoch and at three moments."""

import pytest

from munkey.core.randomness import Stage
from munkey.evaluation import metrics
from munkey.evaluation.trace import TrainingTrace
from munkey.models.family import FAMILIES, Recipe
from munkey.settings import TrainSettings
from tests.training.inputs import DATA, MODEL, MUNKEY, TRAIN, digits, trained


def test_each_epoch_has_its_accuracies_and_p_s_and_three_epochs_have_their_vectors():
    system = trained("munkey", depth=1, epochs=1).system
    samples = digits()
    train = TrainSettings.model_validate(TRAIN.model_dump() | {"epochs": 4})
    trace = TrainingTrace(samples, Recipe(DATA, MODEL, train, MUNKEY, Stage("traced")), "cpu")
    for epoch in range(5):
        trace.watch(epoch, system)
    arrays = trace.to_arrays()
    cut = FAMILIES["munkey"].predict_cut_logits(system, samples, DATA, "cpu")
    accuracies = {}
    for name, logits in cut.items():
        accuracies[name] = 100 * float((logits.argmax(axis=1) == samples.labels).mean())
        assert arrays[f"A_{name}"] == pytest.approx([accuracies[name]] * 5)
    assert arrays["P_s"] == pytest.approx([metrics.compute_pathway_sensitivity(**accuracies)] * 5)
    assert arrays["epoch"].tolist() == [0, 1, 2, 3, 4]
    assert arrays.keys() >= {"tokens_0", "tokens_2", "tokens_4"}
    assert arrays.keys().isdisjoint({"tokens_1", "tokens_3"})
