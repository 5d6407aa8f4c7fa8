"""The temperature by rows that are left out."""

import numpy as np
import pytest
from scipy.special import log_softmax

from munkey.memory.sums import Sums
from munkey.models.networks import calibration
from munkey.models.networks.calibration import (
    calibrate_temperature,
    measure_loss,
    predict_left_out_nearest_mean,
)
from munkey.models.networks.closed_form import EMPTY_CLASS_LOGIT, fit_nearest_mean
from tests.conftest import unit_rows

CLASSES = 4
KEYS = unit_rows(60, 5, seed=1)
LABELS = np.array([0, 1, 3] * 20)  # none has class 2


def sums_of(keys=KEYS, labels=LABELS):
    sums = Sums.empty(CLASSES, keys.shape[1], with_outer_products=False)
    sums.add(keys, labels)
    return sums


def test_a_mean_without_the_row_is_that_of_the_other_rows():
    logits = predict_left_out_nearest_mean(sums_of(), KEYS, LABELS)
    for row in range(60):
        others = np.delete(np.arange(60), row)
        head = fit_nearest_mean(sums_of(KEYS[others], LABELS[others]), 1.0)
        rounded = np.rint(KEYS[row] * 2**15) / 2**15
        expected = rounded @ head.weight.numpy().T + head.bias.numpy()
        np.testing.assert_allclose(logits[row, [0, 1, 3]], expected[[0, 1, 3]], rtol=1e-9)
        assert logits[row, 2] == EMPTY_CLASS_LOGIT


def loss(logits, labels, temperature):
    return -log_softmax(logits / temperature, axis=1)[np.arange(len(labels)), labels].mean()


def test_a_row_that_weighs_three_counts_as_three_rows():
    margins = np.array([3.0, -1.0, -2.0, 1.5])
    labels = np.array([0, 1, 0, 1])
    logits = np.stack([margins * (1 - 2 * labels), np.zeros(4)], axis=1)
    weighed = measure_loss(logits, labels, class_weights=np.array([1.0, 3.0]))
    repeated = np.repeat(np.arange(4), [1, 3, 1, 3])
    # the row that is added is labeled 0, so it weighs one
    assert weighed == pytest.approx(measure_loss(logits[repeated], labels[repeated]), rel=1e-9)
    assert weighed.temperature != measure_loss(logits, labels).temperature


def test_the_temperature_has_the_least_loss():
    keys = KEYS + 0.3 * np.eye(CLASSES, 5)[LABELS]
    sums = sums_of(keys / 2)
    logits = predict_left_out_nearest_mean(sums, keys / 2, LABELS)
    temperature = calibrate_temperature(sums, keys / 2, LABELS, predict_left_out_nearest_mean)
    least = loss(logits, LABELS, temperature)
    for factor in (0.8, 1.25):
        assert least < loss(logits, LABELS, factor * temperature)


def test_the_temperature_is_about_the_nearest_margin_where_every_row_is_answered_right():
    """20 rows right by 3 and one by 2: an answer is wrong one time in about as many."""
    margins = np.r_[np.full(20, 3.0), 2.0]
    logits = np.stack([margins, np.zeros(21)], axis=1)
    labels = np.zeros(21, dtype=int)
    sums = Sums.empty(2, 5, with_outer_products=False)
    sums.counts[:] = 21, 2
    temperature = calibrate_temperature(sums, KEYS[:21], labels, lambda *_: logits)
    assert 0.5 < temperature < 2
    assert 1 / 200 < 1 / (1 + np.exp(3 / temperature)) < 1 / 10


def test_only_every_nth_of_many_rows_is_left_out(monkeypatch):
    labels_of_calls = []

    def left_out(sums, keys, labels):
        labels_of_calls.append(labels.tolist())
        return predict_left_out_nearest_mean(sums, keys, labels)

    monkeypatch.setattr(calibration, "MAX_LEFT_OUT", 25)
    calibrate_temperature(sums_of(), KEYS, LABELS, left_out)
    monkeypatch.setattr(calibration, "MAX_LEFT_OUT", 4096)
    monkeypatch.setattr(calibration, "MIN_LEFT_OUT", 10)
    monkeypatch.setattr(calibration, "MAX_LOGITS", 30 * CLASSES)
    calibrate_temperature(sums_of(), KEYS, LABELS, left_out)
    assert labels_of_calls == [LABELS[::3].tolist(), LABELS[::2].tolist()]


@pytest.mark.parametrize("labels", [[0, 1, 3], [1, 1, 1]])
def test_the_temperature_is_the_default_without_two_classes_or_two_rows_of_one(labels):
    labels = np.array(labels)
    temperature = calibrate_temperature(
        sums_of(KEYS[:3], labels), KEYS[:3], labels, predict_left_out_nearest_mean
    )
    assert temperature == calibration.DEFAULT_TEMPERATURE
