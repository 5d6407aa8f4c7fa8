"""Choose the constants of a closed-form head by leave-one-out prediction of its own rows."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from munkey.memory.sums import Sums
from munkey.models.networks.closed_form import NO_ROWS, compute_class_means, find_best_temperature

# Maximum number of rows to leave out. More would change little, and slow deletions to seconds.
MAX_LEFT_OUT = 4096
# With many classes, fewer rows are left out, so that they have at most this many logits.
MAX_LOGITS = 2**22
MIN_LEFT_OUT = 256  # but not fewer rows than this
DEFAULT_TEMPERATURE = 1.0  # if there is a single class, or no class has two rows
BOUNDS = (1e-6, 1e3)  # of the temperature
DIGITS = 3  # of the temperature; further digits would only be rounding errors of the search

LeftOut = Callable[[Sums, np.ndarray, np.ndarray], np.ndarray]


def calibrate_temperature(
    sums: Sums, keys: np.ndarray, labels: np.ndarray, predict_left_out: LeftOut
) -> float:
    """Find the temperature with the smallest leave-one-out log loss.

    sums: sums of all rows. keys, labels: (N, d) and (N,), the rows by ascending id.
    predict_left_out: predicts their logits at temperature 1, each from all other rows. Classes with
    a single row are skipped. Of more than MAX_LEFT_OUT rows (fewer with more than 1,024 classes),
    every n-th is used.

    If all predictions are correct, the loss is smallest at temperature 0. So one row is added: a
    copy of the row with the smallest margin, labeled as the runner-up. If some predictions are
    wrong, that margin is about 0, and the copy has almost no effect.
    """
    rows = _select_left_out_rows(sums, labels)
    if not len(rows):
        return DEFAULT_TEMPERATURE
    classes = labels[rows]
    return measure_loss(predict_left_out(sums, keys[rows], classes), classes)[1]


def calibrate_constant(
    sums: Sums,
    keys: np.ndarray,
    labels: np.ndarray,
    candidates: Sequence[float],
    predict_left_out: Callable[[np.ndarray, np.ndarray], Iterable[np.ndarray]],
    temperature: float | None,
) -> tuple[float, float]:
    """Find the candidate with the smallest leave-one-out log loss, and its temperature.

    Ties go to the first candidate. Rows are left out as in `calibrate_temperature`; if there are
    none, the last candidate is returned. predict_left_out: yields their logits at temperature 1 for
    each candidate. temperature: the temperature of the compared losses; by default, each
    candidate's best.
    """
    rows = _select_left_out_rows(sums, labels)
    if not len(rows):
        return candidates[-1], temperature or DEFAULT_TEMPERATURE
    losses = []
    temperatures = []
    for logits in predict_left_out(keys[rows], labels[rows]):
        loss, divisor = measure_loss(logits, labels[rows], temperature)
        losses.append(loss)
        temperatures.append(divisor)
    best = int(np.argmin(losses))
    return candidates[best], temperatures[best]


def _select_left_out_rows(sums: Sums, labels: np.ndarray) -> np.ndarray:
    """Select the rows to leave out; none if no class has two rows, or there is a single class."""
    candidates = np.flatnonzero(sums.counts[labels] > 1)
    if not len(candidates) or np.count_nonzero(sums.counts) < 2:
        return candidates[:0]
    max_count = min(MAX_LEFT_OUT, max(MIN_LEFT_OUT, MAX_LOGITS // len(sums.counts)))
    step = -(-len(candidates) // max_count)  # rounded up
    return candidates[::step]


def measure_loss(
    logits: np.ndarray, classes: np.ndarray, temperature: float | None = None
) -> tuple[float, float]:
    """Compute the log loss of leave-one-out logits (N, C), and return it with its temperature.

    temperature: by default, the one with the smallest loss.
    """
    from scipy.special import log_softmax

    positions = np.arange(len(logits))
    others = logits.copy()
    others[positions, classes] = -np.inf
    margins = logits[positions, classes] - others.max(axis=1)
    correct = np.flatnonzero(margins > 0)
    if len(correct):
        nearest = correct[margins[correct].argmin()]
        logits = np.vstack([logits, logits[nearest]])
        classes = np.append(classes, others[nearest].argmax())
    if temperature is None:
        temperature = float(f"{find_best_temperature(logits, classes, BOUNDS):.{DIGITS}g}")
    losses = log_softmax(logits / temperature, axis=1)[np.arange(len(logits)), classes]
    return -float(losses.mean()), temperature


def predict_left_out_nearest_mean(sums: Sums, keys: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Predict rows' logits (N, C) with `fit_nearest_mean` on all others, at temperature 1."""
    present, means = compute_class_means(sums)
    place = np.cumsum(present) - 1
    classes = place[labels]
    z = sums.compute_vectors(keys)
    positions = np.arange(len(z))
    counts = sums.counts[labels][:, None]
    own_means = (counts * means[classes] - z) / (counts - 1)  # mu_y without row z of class y
    # -|z - mu_c|^2 / 2, up to |z|^2 / 2, which is the same for all classes
    class_scores = z @ means.T - 0.5 * (means**2).sum(axis=1)
    class_scores[positions, classes] = (z * own_means).sum(axis=1) - 0.5 * (own_means**2).sum(
        axis=1
    )
    logits = np.full((len(z), len(present)), NO_ROWS)
    logits[:, present] = class_scores
    return logits
