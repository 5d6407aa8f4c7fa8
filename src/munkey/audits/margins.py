"""Margins phi: how much a model prefers a sample's true class (the observable of LiRA)."""

import numpy as np

from munkey.core.diverged import DivergedError

ROWS = 4096  # samples at a time in float64: 1000 classes take 33 MB


def compute_margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return phi (N,) float64: the logit of the true class minus the log-sum-exp of the others.

    That is log(p / (1 - p)) for the probability p of the true class (Carlini et al. 2022). Raises
    ValueError for logits (N, C) that are not finite, or of a single class.
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
    """Count, for margins phi (S, N), a model's own test samples with a smaller one: (S, N).

    A tie counts half. Raises ValueError for a model with the same margin for all test samples.

    Parameters
    ----------
    test
        Whether a sample is a test sample, (N,) bool.
    """
    test_margins = np.sort(phi[:, test], axis=1)
    if not (test_margins[:, 0] < test_margins[:, -1]).all():
        raise ValueError(
            "a model gives all test samples the same margin: there is no unit to measure in"
        )
    counts = np.empty(phi.shape)
    for model in range(len(phi)):
        smaller = np.searchsorted(test_margins[model], phi[model])
        not_larger = np.searchsorted(test_margins[model], phi[model], "right")
        counts[model] = (smaller + not_larger) / 2
    return counts


def normal_scores(counts: np.ndarray, test: int) -> np.ndarray:
    """Turn counts of `count_below`, out of `test` samples, into quantiles of a standard normal.

    A margin is measured by its rank among the model's own margins of test samples, so neither a
    scale nor a few answers can stretch the unit. If these were normal, the unit would be their
    standard deviation.
    """
    from scipy.special import ndtri

    return np.asarray(ndtri((counts + 0.5) / (test + 1)))


def coarsen(counts: np.ndarray, phi: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Make counts (S, N) of `count_below` as coarse as the margins phi (S, N) of another system.

    If a system returns rounded logits, or labels alone, many of its test samples tie. What it is
    compared with must not be resolved more finely.
    """
    coarse_counts = counts.copy()
    for model, test_margins in enumerate(phi[:, test]):
        _, tie_sizes = np.unique(test_margins, return_counts=True)
        if len(tie_sizes) == len(test_margins):  # no ties
            continue
        # Each count becomes the middle of the ranks that tie at its place.
        edges = np.concatenate([[0], np.cumsum(tie_sizes)])
        level = np.clip(np.searchsorted(edges, counts[model], "left"), 1, len(tie_sizes))
        coarse_counts[model] = (edges[level - 1] + edges[level]) / 2
    return coarse_counts
