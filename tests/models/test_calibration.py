"""The temperature by rows that are left out."""

import numpy as np
import pytest
from scipy.special import log_softmax

from munkey.memory.sums import Sums
from munkey.models.networks import calibration
from munkey.models.networks.calibration import calibrate_temperature, predict_left_out_nearest_mean
from munkey.models.networks.closed_form import NO_ROWS, fit_nearest_mean
from tests.conftest import unit_rows

CLASSES = 4
KEYS = unit_rows(60, 5, seed=1)
LABELS = np.array([0, 1, 3] * 20)  # none has class 2


def sums_of(keys=KEYS, labels=LABELS):
    sums = Sums.empty(CLASSES, keys.shape[1], seconds=False)
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
        assert logits[row, 2] == NO_ROWS


def loss(logits, labels, temperature):
    return -log_softmax(logits / temperature, axis=1)[np.arange(len(labels)), labels].mean()


def test_it_is_the_one_with_the_least_loss():
    keys = KEYS + 0.3 * np.eye(CLASSES, 5)[LABELS]
    sums = sums_of(keys / 2)
    logits = predict_left_out_nearest_mean(sums, keys / 2, LABELS)
    chosen = calibrate_temperature(sums, keys / 2, LABELS, predict_left_out_nearest_mean)
    least = loss(logits, LABELS, chosen)
    for factor in (0.8, 1.25):
        assert least < loss(logits, LABELS, factor * chosen)


def test_where_every_row_is_answered_right_it_is_about_the_nearest_margin_and_not_zero():
    """20 rows right by 3 and one by 2: an answer is wrong one time in about as many."""
    margins = np.r_[np.full(20, 3.0), 2.0]
    logits = np.stack([margins, np.zeros(21)], axis=1)
    labels = np.zeros(21, dtype=int)
    sums = Sums.empty(2, 5, seconds=False)
    sums.counts[:] = 21, 2
    chosen = calibrate_temperature(sums, KEYS[:21], labels, lambda *_: logits)
    assert 0.5 < chosen < 2
    assert 1 / 200 < 1 / (1 + np.exp(3 / chosen)) < 1 / 10


def test_of_many_rows_every_nth_is_answered(monkeypatch):
    asked = []

    def left_out(sums, keys, labels):
        asked.append(labels)
        return predict_left_out_nearest_mean(sums, keys, labels)

    monkeypatch.setattr(calibration, "MAX_LEFT_OUT", 25)
    calibrate_temperature(sums_of(), KEYS, LABELS, left_out)
    monkeypatch.setattr(calibration, "MAX_LEFT_OUT", 4096)
    monkeypatch.setattr(calibration, "MIN_LEFT_OUT", 10)
    monkeypatch.setattr(calibration, "MAX_LOGITS", 30 * CLASSES)
    calibrate_temperature(sums_of(), KEYS, LABELS, left_out)
    assert [one.tolist() for one in asked] == [LABELS[::3].tolist(), LABELS[::2].tolist()]


@pytest.mark.parametrize("labels", [[0, 1, 3], [1, 1, 1]])
def test_without_two_classes_or_two_rows_of_one_nothing_is_known(labels):
    rows = KEYS[:3], np.array(labels)
    assert (
        calibrate_temperature(sums_of(*rows), *rows, predict_left_out_nearest_mean)
        == calibration.DEFAULT_TEMPERATURE
    )
