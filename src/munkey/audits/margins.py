"""phi: how much a model prefers a sample's true class, one number for a model and a sample (LiRA's observable)."""

import numpy as np

from munkey.core.diverged import DivergedError

ROWS = 4096  # samples at a time in float64: 1000 classes take 33 MB


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(N,) float64: logit of the true class minus the log-sum-exp of the others, which is log p / (1 - p).

    logits: (N, C), C > 1. Raises ValueError for logits that are not finite, or of one class.
    """
    from scipy.special import logsumexp

    if logits.shape[1] < 2:
        raise ValueError("margins need at least two classes")
    if not np.isfinite(logits).all():
        raise DivergedError("logits are not finite: the model diverged")
    phi = np.empty(len(labels))
    for start in range(0, len(labels), ROWS):
        part, true = logits[start : start + ROWS].astype(np.float64), labels[start : start + ROWS]
        rows = np.arange(len(part))
        phi[start : start + ROWS] = part[rows, true]
        part[rows, true] = -np.inf
        phi[start : start + ROWS] -= logsumexp(part, axis=1)
    return phi


def below(phi: np.ndarray, test: np.ndarray) -> np.ndarray:
    """(S, N): how many of a model's own test samples have a smaller margin; a tie counts half.

    test: (N,) bool. Raises ValueError for a model that answers all its test samples alike.
    """
    own = np.sort(phi[:, test], axis=1)
    if not (own[:, 0] < own[:, -1]).all():
        raise ValueError("a model gives all test samples the same margin: there is no unit to measure in")
    rows = list(zip(own, phi, strict=True))
    left, right = (
        np.stack([np.searchsorted(*row) for row in rows]),
        np.stack([np.searchsorted(*row, "right") for row in rows]),
    )
    return np.asarray((left + right) / 2)


def normal_scores(counts: np.ndarray, test: int) -> np.ndarray:
    """Counts of `below`, out of `test` samples, as quantiles of a standard normal.

    So a margin is measured by its rank among the model's own answers to test samples: no scale, and no few answers,
    can stretch the unit. About one standard deviation of these margins, were they normal.
    """
    from scipy.special import ndtri

    return np.asarray(ndtri((counts + 0.5) / (test + 1)))


def coarsened(counts: np.ndarray, phi: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Counts (S, N) of `below`, rounded to what a system tells apart that answers test samples with margins phi (S, N).

    Of a system that gives rounded logits, or labels alone, many test samples tie; what it is compared with must not
    be told apart more finely.
    """
    rounded = counts.copy()
    for row, own in zip(rounded, phi[:, test], strict=True):
        edges = np.concatenate([[0], np.cumsum(np.unique(own, return_counts=True)[1])])
        if len(edges) <= len(own):
            level = np.clip(np.searchsorted(edges, row, "left"), 1, len(edges) - 1)
            row[:] = (edges[level - 1] + edges[level]) / 2
    return rounded
