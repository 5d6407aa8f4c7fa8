"""Paired comparisons of test accuracy between systems that classify the same test samples."""

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np
from scipy import stats

from munkey.core.diverged import explain_divergence
from munkey.core.files import read_npz
from munkey.evaluation.records import Evaluation

LEVEL = 0.95  # confidence level of the intervals
COLUMNS = ("dataset", "rate", "method", "other", "seeds", "tested", "difference", "low", "high")


def compare_systems(runs: Iterable[Evaluation]) -> list[dict[str, object]]:
    """Compare the test accuracies of all pairs of systems at each forget rate of one data set.

    Returns one row per pair, with the keys of COLUMNS: `difference` is the accuracy of `method`
    minus that of `other` in percentage points, `low` and `high` are the ends of its 95% interval,
    and `tested` counts test samples. A system that diverged for any seed is left out.
    """
    # Whether each test sample is classified correctly: one array per seed.
    flags_by_system: dict[tuple[str, str, str], list[np.ndarray]] = {}
    diverged_systems = set()
    for run in runs:
        system = (run.dataset, run.rate, run.method)
        predictions = read_npz(run.logits)
        if explain_divergence(predictions):
            diverged_systems.add(system)
            continue
        test = predictions["splits"] == "test"
        predicted_labels = predictions["logits"][test].argmax(axis=1)
        is_correct = predicted_labels == predictions["labels"][test]
        flags_by_system.setdefault(system, []).append(is_correct)
    # Arrays (seeds, tested) by request, then by method.
    correct_by_request: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for (dataset, rate, method), flags in flags_by_system.items():
        if (dataset, rate, method) not in diverged_systems:
            correct_by_request.setdefault((dataset, rate), {})[method] = np.stack(flags)
    rows: list[dict[str, object]] = []
    for (dataset, rate), correct_by_method in correct_by_request.items():
        for method, other in combinations(correct_by_method, 2):
            gains = correct_by_method[method].astype(float) - correct_by_method[other]
            pair = {"dataset": dataset, "rate": rate, "method": method, "other": other}
            rows.append(pair | compare_pair(gains))
    return rows


def compare_pair(gains: np.ndarray) -> dict[str, object]:
    """Return the mean gain in percentage points, with an interval over seeds and test samples.

    The half-widths of two intervals are added in quadrature: Student's t over the seeds' means, and
    the "Wald + 2" interval of Agresti and Min (2005) over test samples. Both include the variation
    between seeds, so the result is conservative. A single seed has only the second.

    Parameters
    ----------
    gains
        (seeds, tested): 1 if only the first system is correct, -1 if only the other is, else 0.
    """
    seeds, tested = gains.shape
    sample_means = gains.mean(axis=0)
    # "Wald + 2" adds two pseudo-samples: half a win, half a loss, and one tie. Without them, the
    # interval would be too narrow if the systems differ on only a few samples.
    count = tested + 2
    variance = ((sample_means**2).sum() + 1 - sample_means.sum() ** 2 / count) / count**2
    half_width = stats.norm.ppf((1 + LEVEL) / 2) * math.sqrt(variance)
    if seeds > 1:
        seed_means = gains.mean(axis=1)
        quantile = stats.t.ppf((1 + LEVEL) / 2, seeds - 1)
        half_width_over_seeds = quantile * seed_means.std(ddof=1) / math.sqrt(seeds)
        half_width = math.hypot(half_width, half_width_over_seeds)
    difference = 100 * float(sample_means.mean())
    return {
        "seeds": seeds,
        "tested": tested,
        "difference": difference,
        "low": difference - 100 * half_width,
        "high": difference + 100 * half_width,
    }
