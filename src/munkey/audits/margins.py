"""Margins phi: how much a model prefers a sample's true class (LiRA's statistic)."""

import numpy as np

from munkey.core.diverged import DivergedError

ROWS = 4096  # samples converted to float64 at a time: 33 MB for 1000 classes


def compute_margins(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute phi (N,) float64: the logit of the true class minus the log-sum-exp of the others.

    This equals log(p / (1 - p)) for the probability p of the true class (Carlini et al. 2022).
    Raises DivergedError for logits (N, C) that are not finite, and ValueError for a single class.
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
    """Count, for each margin phi (S, N), the model's test samples with a smaller margin: (S, N).

    A tie counts as half. Raises ValueError if a model has the same margin for all test samples.

    Parameters
    ----------
    test
        Whether each sample is a test sample, (N,) bool.
    """
    test_margins = np.sort(phi[:, test], axis=1)
    if not (test_margins[:, 0] < test_margins[:, -1]).all():
        raise ValueError(
            "a model has the same margin for all test samples, so margins cannot be ranked"
        )
    counts = np.empty(phi.shape)
    for model in range(len(phi)):
        smaller = np.searchsorted(test_margins[model], phi[model])
        not_larger = np.searchsorted(test_margins[model], phi[model], "right")
        counts[model] = (smaller + not_larger) / 2
    return counts


def compute_normal_scores(counts: np.ndarray, test_size: int) -> np.ndarray:
    """Convert counts of `count_below`, out of `test_size` samples, to standard normal quantiles.

    Each margin is measured by its rank among the model's own test margins, so the unit of scores
    depends neither on the scale of the logits nor on outliers. If the test margins are normally
    distributed, the unit is their standard deviation.
    """
    from scipy.special import ndtri

    return np.asarray(ndtri((counts + 0.5) / (test_size + 1)))


def coarsen(counts: np.ndarray, phi: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Make counts (S, N) of `count_below` as coarse as another system's margins phi (S, N).

    If a system returns rounded logits or only labels, many of its test samples tie. The reference
    that it is compared with must then not have a finer resolution.

    Parameters
    ----------
    test
        Whether each sample is a test sample, (N,) bool.
    """
    coarse_counts = counts.copy()
    for model, test_margins in enumerate(phi[:, test]):
        _, tie_sizes = np.unique(test_margins, return_counts=True)
        if len(tie_sizes) == len(test_margins):  # no ties
            continue
        # Replace each count by the middle of the tied ranks that contain it.
        edges = np.concatenate([[0], np.cumsum(tie_sizes)])
        level = np.clip(np.searchsorted(edges, counts[model], "left"), 1, len(tie_sizes))
        coarse_counts[model] = (edges[level - 1] + edges[level]) / 2
    return coarse_counts
