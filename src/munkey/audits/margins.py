"""phi: how much a model prefers a sample's true class, one number for a model and a sample (LiRA's observable)."""

import numpy as np

ROWS = 4096  # samples at a time in float64: 1000 classes take 33 MB


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(N,) float64: logit of the true class minus the log-sum-exp of the others, which is log p / (1 - p).

    logits: (N, C), C > 1. Raises ValueError for logits that are not finite, or of one class.
    """
    from scipy.special import logsumexp

    if logits.shape[1] < 2:
        raise ValueError("margins need at least two classes")
    if not np.isfinite(logits).all():
        raise ValueError("logits are not finite: the model diverged; look at its training log")
    phi = np.empty(len(labels))
    for start in range(0, len(labels), ROWS):
        part, true = logits[start : start + ROWS].astype(np.float64), labels[start : start + ROWS]
        rows = np.arange(len(part))
        phi[start : start + ROWS] = part[rows, true]
        part[rows, true] = -np.inf
        phi[start : start + ROWS] -= logsumexp(part, axis=1)
    return phi


def standardized(phi: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Margins (S, N) in units of each model's own test samples: less their mean, over their sd (ddof 1).

    test: (N,) bool. Raises ValueError for a model that answers all its test samples alike.
    """
    own = phi[:, test]
    sd = own.std(axis=1, ddof=1, keepdims=True)
    if not (sd > 0).all():
        raise ValueError("a model gives all test samples the same margin: there is no unit to measure in")
    return np.asarray((phi - own.mean(axis=1, keepdims=True)) / sd)
