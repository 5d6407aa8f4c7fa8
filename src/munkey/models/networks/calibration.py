"""The constants of a closed-form head, by leave-one-out answers to its own rows."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from munkey.memory.sums import Sums
from munkey.models.networks.closed_form import NO_ROWS, compute_class_means, find_best_temperature

LEFT_OUT = 4096  # most rows to answer: more would change little, and a deletion would take seconds
LOGITS = 2**22  # most logits of these rows: with many classes, fewer rows, but at least FEWEST
FEWEST = 256
NOT_KNOWN = 1.0  # the temperature if there is a single class, or no class has two rows
BOUNDS = (1e-6, 1e3)  # of the temperature
DIGITS = 3  # of the temperature: further digits would only be rounding of the search

LeftOut = Callable[[Sums, np.ndarray, np.ndarray], np.ndarray]


def calibrate_temperature(
    sums: Sums, keys: np.ndarray, labels: np.ndarray, left_out: LeftOut
) -> float:
    """The temperature with the smallest leave-one-out log loss.

    sums: of all rows; keys: (N, d) and labels: (N,) of the rows, by ascending id; left_out: their
    logits at temperature 1, each from all other rows. Skips rows that are alone in their class. Of
    more than LEFT_OUT rows (fewer with more than 1,024 classes), it answers every n-th.

    If all answers are right, the loss has its minimum at temperature 0. So one more row is assumed:
    a copy of the row with the smallest margin, labeled as the runner-up. If some answers are wrong,
    that margin is about 0, and the copy changes nothing.
    """
    rows = _rows_to_answer(sums, labels)
    if not len(rows):
        return NOT_KNOWN
    classes = labels[rows]
    return measure_loss(left_out(sums, keys[rows], classes), classes)[1]


def calibrate_constant(
    sums: Sums,
    keys: np.ndarray,
    labels: np.ndarray,
    candidates: Sequence[float],
    left_out: Callable[[np.ndarray, np.ndarray], Iterable[np.ndarray]],
    temperature: float | None,
) -> tuple[float, float]:
    """The candidate with the smallest log loss of rows that are left out, and its temperature.

    If several tie, it is the first. Rows are answered as for `calibrate_temperature`. left_out:
    yields their logits at temperature 1, candidate by candidate. temperature: the temperature of
    the compared losses; None: for each candidate, the one with the smallest loss. If there are no
    rows to answer, the result is the last candidate.
    """
    rows = _rows_to_answer(sums, labels)
    if not len(rows):
        return candidates[-1], temperature or NOT_KNOWN
    losses = []
    temperatures = []
    for logits in left_out(keys[rows], labels[rows]):
        loss, divisor = measure_loss(logits, labels[rows], temperature)
        losses.append(loss)
        temperatures.append(divisor)
    best = int(np.argmin(losses))
    return candidates[best], temperatures[best]


def _rows_to_answer(sums: Sums, labels: np.ndarray) -> np.ndarray:
    """The rows to leave out and answer; none if no class has two rows, or there is a single class."""
    together = np.flatnonzero(sums.counts[labels] > 1)
    if not len(together) or np.count_nonzero(sums.counts) < 2:
        return together[:0]
    most = min(LEFT_OUT, max(FEWEST, LOGITS // len(sums.counts)))
    return together[:: -(-len(together) // most)]


def measure_loss(
    logits: np.ndarray, classes: np.ndarray, temperature: float | None = None
) -> tuple[float, float]:
    """The log loss of leave-one-out logits (N, C), and the temperature at which it is measured.

    temperature: None: the one with the smallest loss.
    """
    from scipy.special import log_softmax

    positions = np.arange(len(logits))
    others = logits.copy()
    others[positions, classes] = -np.inf
    margins = logits[positions, classes] - others.max(axis=1)
    right = np.flatnonzero(margins > 0)
    if len(right):
        nearest = right[margins[right].argmin()]
        logits = np.vstack([logits, logits[nearest]])
        classes = np.append(classes, others[nearest].argmax())
    if temperature is None:
        temperature = float(f"{find_best_temperature(logits, classes, BOUNDS):.{DIGITS}g}")
    losses = log_softmax(logits / temperature, axis=1)[np.arange(len(logits)), classes]
    return -float(losses.mean()), temperature


def predict_left_out_nearest_mean(sums: Sums, keys: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Logits (N, C) of `fit_nearest_mean` at temperature 1 of rows, each from all others."""
    present, means = compute_class_means(sums)
    place = np.cumsum(present) - 1
    classes = place[labels]
    z = sums.compute_vectors(keys)
    positions = np.arange(len(z))
    counts = sums.counts[labels][:, None]
    own_means = (counts * means[classes] - z) / (counts - 1)  # mu_y without row z of class y
    # -|z - mu_c|^2 / 2 up to z's own term, which is the same for all classes
    class_scores = z @ means.T - 0.5 * (means**2).sum(axis=1)
    class_scores[positions, classes] = (z * own_means).sum(axis=1) - 0.5 * (own_means**2).sum(
        axis=1
    )
    logits = np.full((len(z), len(present)), NO_ROWS)
    logits[:, present] = class_scores
    return logits
