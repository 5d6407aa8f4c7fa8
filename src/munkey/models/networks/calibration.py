"""The constants of a closed-form head, by leave-one-out answers to its own rows."""

from collections.abc import Callable, Sequence

import numpy as np

from munkey.memory.sums import Sums
from munkey.models.networks.closed_form import NO_ROWS, compute_class_means, find_best_temperature

LEFT_OUT = (
    4096  # rows that are answered, at most: more say little more, and a deletion would take seconds
)
# of these rows, at most, unless classes are so many that these are fewer than FEWEST rows
LOGITS = 2**22
FEWEST = 256
NOT_KNOWN = 1.0  # the temperature of a single class, and where no class has two rows
BOUNDS = (1e-6, 1e3)
DIGITS = 3  # of the temperature: the last bits of a search over float64 decide nothing

LeftOut = Callable[[Sums, np.ndarray, np.ndarray], np.ndarray]


def calibrate_temperature(
    sums: Sums, keys: np.ndarray, labels: np.ndarray, left_out: LeftOut
) -> float:
    """The temperature with the smallest log loss of rows that are left out.

    sums: of all rows; keys: (N, d) and labels: (N,) of these, by ascending id; left_out: logits at
    temperature 1 of some of them, each from all others. Rows that are alone in their class are
    passed over. If there are more than LEFT_OUT rows (fewer for more than 1,024 classes), every
    n-th is answered.

    If all are answered right, the least loss is at temperature 0. So one row more is assumed: a
    copy of the one that is right by the smallest margin, which belongs to the runner-up. Where
    some rows are wrong that margin is about 0, and the copy changes nothing.
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
    left_out: Callable[[float, np.ndarray, np.ndarray], np.ndarray],
    temperature: float | None,
) -> float:
    """The candidate with the smallest log loss of rows that are left out; of equal ones, the first.

    Rows are answered as for `calibrate_temperature`. left_out: their logits at temperature 1 with
    a candidate; temperature: at which the loss counts, None: at that of its own at which it is
    least. Without rows to answer it is the last candidate.
    """
    rows = _rows_to_answer(sums, labels)
    if not len(rows):
        return candidates[-1]
    losses = []
    for candidate in candidates:
        logits = left_out(candidate, keys[rows], labels[rows])
        losses.append(measure_loss(logits, labels[rows], temperature)[0])
    return candidates[int(np.argmin(losses))]


def _rows_to_answer(sums: Sums, labels: np.ndarray) -> np.ndarray:
    """The rows that are left out and answered; none where no class has two rows, or all are of one."""
    together = np.flatnonzero(sums.counts[labels] > 1)
    if not len(together) or np.count_nonzero(sums.counts) < 2:
        return together[:0]
    most = min(LEFT_OUT, max(FEWEST, LOGITS // len(sums.counts)))
    return together[:: -(-len(together) // most)]


def measure_loss(
    logits: np.ndarray, classes: np.ndarray, temperature: float | None = None
) -> tuple[float, float]:
    """The log loss of logits (N, C) of rows that are left out, and the temperature at which it is least.

    temperature: None, or one that is given: then the loss is that at it.
    """
    from scipy.special import log_softmax

    each = np.arange(len(logits))
    others = logits.copy()
    others[each, classes] = -np.inf
    margins = logits[each, classes] - others.max(axis=1)
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
    each = np.arange(len(z))
    counts = sums.counts[labels][:, None]
    own_means = (counts * means[classes] - z) / (counts - 1)
    class_scores = z @ means.T - 0.5 * (means**2).sum(axis=1)
    class_scores[each, classes] = (z * own_means).sum(axis=1) - 0.5 * (own_means**2).sum(axis=1)
    logits = np.full((len(z), len(present)), NO_ROWS)
    logits[:, present] = class_scores
    return logits
