"""Margins phi: how much a model prefers a sample's true class (the observable of LiRA)."""

import numpy as np

from munkey.core.diverged import DivergedError

ROWS = 4096  # samples at a time in float64: 1000 classes take 33 MB


def margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """phi (N,) float64: logit of the true class minus the log-sum-exp of the others.

    That is log(p / (1 - p)) for the probability p of the true class (Carlini et al. 2022).

    Raises ValueError for logits that are not finite, or of a single class.

    Parameters
    ----------
    logits
        (N, C), C > 1.
    """
    from scipy.special import logsumexp

    if logits.shape[1] < 2:
        raise ValueError("margins need at least two classes")
    if not np.isfinite(logits).all():
        raise DivergedError("logits are not finite: the model diverged")
    phi = np.empty(len(labels))
    for start in range(0, len(labels), ROWS):
        block = logits[start : start + ROWS].astype(np.float64)
        true_class = (np.arange(len(block)), labels[start : start + ROWS])
        phi[start : start + ROWS] = block[true_class]
        block[true_class] = -np.inf
        phi[start : start + ROWS] -= logsumexp(block, axis=1)
    return phi


def count_below(phi: np.ndarray, test: np.ndarray) -> np.ndarray:
    """(S, N): the number of a model's own test samples with a smaller margin; a tie counts half.

    Raises ValueError for a model with the same margin for all test samples.

    Parameters
    ----------
    test
        (N,) bool.
    """
    test_margins = np.sort(phi[:, test], axis=1)
    if not (test_margins[:, 0] < test_margins[:, -1]).all():
        raise ValueError(
            "a model gives all test samples the same margin: there is no unit to measure in"
        )
    counts = np.empty(phi.shape)
    for row, model_margins, own_test in zip(counts, phi, test_margins, strict=True):
        smaller = np.searchsorted(own_test, model_margins)
        not_larger = np.searchsorted(own_test, model_margins, "right")
        row[:] = (smaller + not_larger) / 2
    return counts


def normal_scores(counts: np.ndarray, test: int) -> np.ndarray:
    """Counts of `count_below`, out of `test` samples, as quantiles of a standard normal.

    A margin is measured by its rank among the model's own margins of test samples, so neither a
    scale nor a few answers can stretch the unit. If these were normal, the unit would be their
    standard deviation.
    """
    from scipy.special import ndtri

    return np.asarray(ndtri((counts + 0.5) / (test + 1)))


def coarsen(counts: np.ndarray, phi: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Counts (S, N) of `count_below`, as coarse as the margins phi (S, N) of another system.

    If a system returns rounded logits, or labels alone, many of its test samples tie. What it is
    compared with must not be resolved more finely.
    """
    rounded = counts.copy()
    for row, own_test in zip(rounded, phi[:, test], strict=True):
        tie_sizes = np.unique(own_test, return_counts=True)[1]
        edges = np.concatenate([[0], np.cumsum(tie_sizes)])
        if len(tie_sizes) < len(own_test):  # there are ties
            level = np.clip(np.searchsorted(edges, row, "left"), 1, len(tie_sizes))
            row[:] = (edges[level - 1] + edges[level]) / 2
    return rounded
