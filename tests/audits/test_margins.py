"""Margins, by hand."""

import numpy as np
import pytest
from scipy.special import softmax

from munkey.audits import margins as module
from munkey.audits.margins import coarsen, compute_margins, compute_normal_scores, count_below

LOGITS = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 0.0], [1.0, 1.0, 1.0]], dtype=np.float32)
LABELS = np.array([0, 1, 2])
PHI = [2 - np.log(np.e + 1), 3 - np.log(2), -np.log(2)]


def test_a_margin_is_the_true_logit_less_the_log_sum_exp_of_the_others():
    np.testing.assert_allclose(compute_margins(LOGITS, LABELS), PHI, rtol=1e-12)
    p = softmax(LOGITS.astype(float), axis=1)[[0, 1, 2], LABELS]
    np.testing.assert_allclose(compute_margins(LOGITS, LABELS), np.log(p / (1 - p)), rtol=1e-12)


def test_saturated_answers_have_different_margins():
    """In float32, or by way of probabilities, both would be the same."""
    phi = compute_margins(
        np.array([[40.0, 0.0], [50.0, 0.0], [-1e4, 1e4]], dtype=np.float32), np.array([0, 0, 0])
    )
    np.testing.assert_array_equal(phi, [40, 50, -2e4])


def test_margins_do_not_depend_on_the_size_of_blocks(monkeypatch):
    whole = compute_margins(np.tile(LOGITS, (5, 1)), np.tile(LABELS, 5))
    monkeypatch.setattr(module, "ROWS", 4)
    np.testing.assert_array_equal(
        compute_margins(np.tile(LOGITS, (5, 1)), np.tile(LABELS, 5)), whole
    )
    assert len(whole) == 15
    assert compute_margins(LOGITS[:0], LABELS[:0]).shape == (0,)


def test_computing_margins_does_not_change_the_logits():
    before = LOGITS.copy()
    compute_margins(LOGITS, LABELS)
    np.testing.assert_array_equal(LOGITS, before)
    doubles = LOGITS.astype(np.float64)
    compute_margins(doubles, LABELS)
    np.testing.assert_array_equal(doubles, before)


@pytest.mark.parametrize(
    ("logits", "words"), [([[np.nan, 1.0]], "not finite"), ([[1.0]], "two classes")]
)
def test_logits_without_margins_are_refused(logits, words):
    with pytest.raises(ValueError, match=words):
        compute_margins(np.array(logits), np.array([0]))


PHI_OF_TWO = np.array([[9.0, 1.0, 3.0, 5.0, 3.0], [0.0, 10.0, 10.0, 13.0, 11.0]])
TEST = np.array([False, True, True, True, False])


def test_a_margin_counts_by_how_many_test_samples_have_a_smaller_one():
    np.testing.assert_array_equal(
        count_below(PHI_OF_TWO, TEST), [[3, 0.5, 1.5, 2.5, 1.5], [0, 1, 1, 2.5, 2]]
    )


def test_normal_scores_are_those_of_a_standard_normal_whatever_stretches_the_margins():
    random = np.random.default_rng(0)
    phi = random.normal(3, 2, (2, 4000))
    test = np.arange(4000) < 2000
    scores = compute_normal_scores(count_below(phi, test), 2000)
    middle = np.abs(phi - 3) < 3
    np.testing.assert_allclose(scores[middle], (phi[middle] - 3) / 2, atol=0.12)
    for changed in (np.exp(phi), 1e-3 * phi - 7):
        np.testing.assert_allclose(
            compute_normal_scores(count_below(changed, test), 2000), scores, atol=1e-9
        )
    phi[0, 0] = 1e9  # one answer
    np.testing.assert_allclose(
        compute_normal_scores(count_below(phi, test), 2000)[middle][1:],
        scores[middle][1:],
        atol=0.02,
    )


def test_test_samples_that_all_have_the_same_margin_are_refused():
    with pytest.raises(ValueError, match="same margin"):
        count_below(np.array([[1.0, 2.0, 2.0]]), np.array([False, True, True]))


def test_counts_are_coarsened_to_the_levels_of_a_system_that_ties_test_samples():
    """The first system ties 1 and 2 of its 3 test samples, so counts up to 1 are one level, those above another."""
    phi = np.array([[0.0, 1.0, 2.0, 2.0], [0.0, 1.0, 2.0, 3.0]])
    counts = np.array([[0.0, 0.5, 1.0, 1.5, 3.0]] * 2)
    rounded = coarsen(counts, phi, np.array([False, True, True, True]))
    np.testing.assert_array_equal(rounded, [[0.5, 0.5, 0.5, 2, 2], counts[1]])
    np.testing.assert_array_equal(counts[0], counts[1])  # the input is not changed
