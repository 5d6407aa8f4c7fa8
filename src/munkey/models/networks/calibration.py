"""The temperature of a closed-form head, by leave-one-out answers to its own rows."""

from collections.abc import Callable

import numpy as np

from munkey.memory.sums import Sums, rounded
from munkey.models.networks.closed_form import NO_ROWS, best_temperature, class_means

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


def calibrated_temperature(
    sums: Sums, keys: np.ndarray, labels: np.ndarray, left_out: LeftOut
) -> float:
    """The temperature with the smallest log loss of rows that are left out.

    sums: of all rows; keys: (N, d) and labels: (N,) of these, by ascending id; left_out: logits at
    temperature 1 of some of them, each from all others. Rows that are alone in their class are
    passed over. Of more than LEFT_OUT rows (fewer where there are more than 1,024 classes), every
    n-th is answered.

    If all are answered right, the least loss is at temperature 0. So one row more is assumed: a
    copy of the one that is right by the smallest margin, which belongs to the runner-up. Where
    some rows are wrong that margin is about 0, and the copy changes nothing.
    """
    together = np.flatnonzero(sums.counts[labels] > 1)
    if not len(together) or np.count_nonzero(sums.counts) < 2:
        return NOT_KNOWN
    most = min(LEFT_OUT, max(FEWEST, LOGITS // len(sums.counts)))
    rows = together[:: -(-len(together) // most)]
    classes = labels[rows]
    logits = left_out(sums, keys[rows], classes)
    each = np.arange(len(rows))
    others = logits.copy()
    others[each, classes] = -np.inf
    margins = logits[each, classes] - others.max(axis=1)
    right = np.flatnonzero(margins > 0)
    if len(right):
        nearest = right[margins[right].argmin()]
        logits = np.vstack([logits, logits[nearest]])
        classes = np.append(classes, others[nearest].argmax())
    return float(f"{best_temperature(logits, classes, BOUNDS):.{DIGITS}g}")


def nearest_mean_left_out(sums: Sums, keys: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Logits (N, C) of `nearest_mean` at temperature 1 of rows, each from all others."""
    present, means = class_means(sums)
    place = np.cumsum(present) - 1
    classes = place[labels]
    z = rounded(keys).astype(np.float64)
    each = np.arange(len(z))
    counts = sums.counts[labels][:, None]
    own_means = (counts * means[classes] - z) / (counts - 1)
    known = z @ means.T - 0.5 * (means**2).sum(axis=1)
    known[each, classes] = (z * own_means).sum(axis=1) - 0.5 * (own_means**2).sum(axis=1)
    logits = np.full((len(z), len(present)), NO_ROWS)
    logits[:, present] = known
    return logits
