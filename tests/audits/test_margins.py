"""Margins, by hand."""

import numpy as np
import pytest
from scipy.special import softmax

from munkey.audits import margins as module
from munkey.audits.margins import margins, standardized

LOGITS = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 0.0], [1.0, 1.0, 1.0]], dtype=np.float32)
LABELS = np.array([0, 1, 2])
PHI = [2 - np.log(np.e + 1), 3 - np.log(2), -np.log(2)]


def test_a_margin_is_the_true_logit_less_the_log_sum_exp_of_the_others():
    np.testing.assert_allclose(margins(LOGITS, LABELS), PHI, rtol=1e-12)
    p = softmax(LOGITS.astype(float), axis=1)[[0, 1, 2], LABELS]
    np.testing.assert_allclose(margins(LOGITS, LABELS), np.log(p / (1 - p)), rtol=1e-12)


def test_saturated_answers_are_told_apart():
    """In float32, or by way of probabilities, both would be the same."""
    phi = margins(np.array([[40.0, 0.0], [50.0, 0.0], [-1e4, 1e4]], dtype=np.float32), np.array([0, 0, 0]))
    np.testing.assert_array_equal(phi, [40, 50, -2e4])


def test_logits_are_read_in_parts(monkeypatch):
    whole = margins(np.tile(LOGITS, (5, 1)), np.tile(LABELS, 5))
    monkeypatch.setattr(module, "ROWS", 4)
    np.testing.assert_array_equal(margins(np.tile(LOGITS, (5, 1)), np.tile(LABELS, 5)), whole)
    assert len(whole) == 15 and margins(LOGITS[:0], LABELS[:0]).shape == (0,)


def test_logits_are_not_changed():
    before = LOGITS.copy()
    margins(LOGITS, LABELS)
    np.testing.assert_array_equal(LOGITS, before)
    doubles = LOGITS.astype(np.float64)
    margins(doubles, LABELS)
    np.testing.assert_array_equal(doubles, before)


@pytest.mark.parametrize(("logits", "words"), [([[np.nan, 1.0]], "not finite"), ([[1.0]], "two classes")])
def test_logits_without_margins_are_refused(logits, words):
    with pytest.raises(ValueError, match=words):
        margins(np.array(logits), np.array([0]))


def test_margins_are_standardized_by_the_models_own_test_samples():
    phi = np.array([[9.0, 1.0, 3.0, 5.0], [0.0, 10.0, 10.0, 13.0]])
    test = np.array([False, True, True, True])
    expected = [[3, -1, 0, 1], [-11 / np.sqrt(3), -1 / np.sqrt(3), -1 / np.sqrt(3), 2 / np.sqrt(3)]]
    np.testing.assert_allclose(standardized(phi, test), expected, rtol=1e-12)


def test_a_model_without_a_unit_is_refused():
    with pytest.raises(ValueError, match="same margin"):
        standardized(np.array([[1.0, 2.0, 2.0]]), np.array([False, True, True]))
