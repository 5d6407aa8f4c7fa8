"""Chooses the constants of a closed-form head by leave-one-out predictions of its own rows."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from munkey.memory.sums import Sums
from munkey.models.networks.closed_form import (
    EMPTY_CLASS_LOGIT,
    compute_class_means,
    find_best_temperature,
)

# The maximum number of rows to leave out. More rows would hardly change the result, and each
# deletion would take seconds.
MAX_LEFT_OUT = 4096
# With many classes, fewer rows are left out, so that they have at most MAX_LOGITS logits in total.
# However, at least MIN_LEFT_OUT rows are left out, if there are that many.
MAX_LOGITS = 2**22
MIN_LEFT_OUT = 256
DEFAULT_TEMPERATURE = 1.0  # used if no row can be left out
TEMPERATURE_BOUNDS = (1e-6, 1e3)
TEMPERATURE_DIGITS = 3  # further digits would depend on the rounding of the search

# A function of sums, keys, and labels that returns logits.
PredictLeftOut = Callable[[Sums, np.ndarray, np.ndarray], np.ndarray]


class MeasuredLoss(NamedTuple):
    """A mean log loss, and the temperature at which it was measured."""

    loss: float
    temperature: float


def calibrate_temperature(
    sums: Sums,
    keys: np.ndarray,
    labels: np.ndarray,
    predict_left_out: PredictLeftOut,
    class_weights: np.ndarray | None = None,
) -> float:
    """Return the temperature with the smallest leave-one-out log loss.

    Rows alone in their class are skipped; of more than MAX_LEFT_OUT rows (fewer with more than
    1,024 classes), every n-th is left out. Without any, this is DEFAULT_TEMPERATURE.

    Parameters
    ----------
    sums
        The sums over all rows.
    keys, labels
        (N, d) and (N,): the rows, by ascending id.
    predict_left_out
        Returns the logits of some of the rows at temperature 1, each from all other rows.
    class_weights
        (C,): the weight of a row of each class in the loss; by default, all are equal.
    """
    rows = _select_left_out_rows(sums, labels)
    if not len(rows):
        return DEFAULT_TEMPERATURE
    logits = predict_left_out(sums, keys[rows], labels[rows])
    return measure_loss(logits, labels[rows], class_weights=class_weights).temperature


def calibrate_constant(  # noqa: PLR0913 -- rows, candidates, and how to compare them
    sums: Sums,
    keys: np.ndarray,
    labels: np.ndarray,
    candidates: Sequence[float],
    predict_left_out: Callable[[np.ndarray, np.ndarray], Iterable[np.ndarray]],
    temperature: float | None,
    class_weights: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return the candidate with the smallest leave-one-out log loss, and its temperature.

    Leaves out the same rows as `calibrate_temperature`. Ties go to the first candidate; without
    rows to leave out, the last is returned.

    Parameters
    ----------
    predict_left_out
        ``predict_left_out(keys, labels)`` yields, for each candidate, logits at temperature 1.
    temperature
        The temperature at which to compare losses. None to use the best one of each candidate.
    class_weights
        As for `calibrate_temperature`.
    """
    rows = _select_left_out_rows(sums, labels)
    if not len(rows):
        return candidates[-1], temperature or DEFAULT_TEMPERATURE
    measured = [
        measure_loss(logits, labels[rows], temperature, class_weights)
        for logits in predict_left_out(keys[rows], labels[rows])
    ]
    best = int(np.argmin([each.loss for each in measured]))
    return candidates[best], measured[best].temperature


def _select_left_out_rows(sums: Sums, labels: np.ndarray) -> np.ndarray:
    """Return the rows to leave out: none if no class has two rows, or if there is only one class."""
    candidates = np.flatnonzero(sums.counts[labels] > 1)
    if not len(candidates) or np.count_nonzero(sums.counts) < 2:
        return candidates[:0]
    max_count = min(MAX_LEFT_OUT, max(MIN_LEFT_OUT, MAX_LOGITS // len(sums.counts)))
    step = math.ceil(len(candidates) / max_count)
    return candidates[::step]


def measure_loss(
    logits: np.ndarray,
    classes: np.ndarray,
    temperature: float | None = None,
    class_weights: np.ndarray | None = None,
) -> MeasuredLoss:
    """Return the mean log loss of leave-one-out logits (N, C) for the classes (N,).

    First adds a misclassified row (`_add_misclassified_row`). Without `temperature`, the best is
    used. class_weights: (C,), the weight of a row of each class; by default, all are equal.
    """
    from scipy.special import log_softmax

    logits, classes = _add_misclassified_row(logits, classes)
    weights = None if class_weights is None else class_weights[classes]
    if temperature is None:
        best_temperature = find_best_temperature(logits, classes, TEMPERATURE_BOUNDS, weights)
        temperature = _round_to_digits(best_temperature, TEMPERATURE_DIGITS)
    log_probabilities = log_softmax(logits / temperature, axis=1)
    true_class = (np.arange(len(logits)), classes)
    loss = -float(np.average(log_probabilities[true_class], weights=weights))
    return MeasuredLoss(loss, temperature)


def _round_to_digits(number: float, digits: int) -> float:
    """Round a number to some significant digits."""
    return float(f"{number:.{digits}g}")


def _add_misclassified_row(
    logits: np.ndarray, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Append a copy of the correct row with the smallest margin, labeled as its runner-up.

    If all predictions were correct, the best temperature would be 0. If some are wrong, the
    smallest margin is usually close to 0, and the row has little effect. Without correct rows, none
    is added.
    """
    positions = np.arange(len(logits))
    other_logits = logits.copy()
    other_logits[positions, classes] = -np.inf
    margins = logits[positions, classes] - other_logits.max(axis=1)
    correct_rows = np.flatnonzero(margins > 0)
    if not len(correct_rows):
        return logits, classes
    row = correct_rows[margins[correct_rows].argmin()]
    runner_up = other_logits[row].argmax()
    return np.vstack([logits, logits[row]]), np.append(classes, runner_up)


def predict_left_out_nearest_mean(sums: Sums, keys: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the leave-one-out logits (N, C) of `fit_nearest_mean` at temperature 1."""
    present, means = compute_class_means(sums)
    column_of_class = np.cumsum(present) - 1
    y = column_of_class[labels]
    z = sums.compute_vectors(keys)
    counts = sums.counts[labels][:, None]
    own_means = (counts * means[y] - z) / (counts - 1)  # mu_y without row z of class y
    # -|z - mu_c|^2 / 2, without the term -|z|^2 / 2, which is the same for all classes
    class_scores = z @ means.T - 0.5 * (means**2).sum(axis=1)
    own_scores = (z * own_means).sum(axis=1) - 0.5 * (own_means**2).sum(axis=1)
    class_scores[np.arange(len(z)), y] = own_scores
    logits = np.full((len(z), len(present)), EMPTY_CLASS_LOGIT)
    logits[:, present] = class_scores
    return logits
