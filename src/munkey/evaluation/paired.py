"""Differences in test accuracy between two systems on the same test samples."""

import math
from collections.abc import Iterable

import numpy as np
from scipy import stats

from munkey.core.diverged import explain_divergence
from munkey.core.files import read_npz
from munkey.evaluation.records import Evaluation

LEVEL = 0.95
COLUMNS = ("dataset", "rate", "method", "other", "seeds", "tested", "difference", "low", "high")


def compare_systems(runs: Iterable[Evaluation]) -> list[dict[str, object]]:
    """Compare the accuracy of each pair of systems on the test samples, at each rate.

    Parameters
    ----------
    runs
        The evaluations of one data set, for all seeds.

    Returns
    -------
    rows
        The columns are dataset, rate, method, other, seeds, tested (the number of test samples),
        difference (method minus other, in points) and its 95 % interval, low and high. A system
        that diverged for any seed has no rows.
    """
    correct_by_system: dict[tuple[str, str, str], list[np.ndarray]] = {}
    diverged_systems = set()
    for run in runs:
        system = (run.dataset, run.rate, run.method)
        predictions = read_npz(run.logits)
        if explain_divergence(predictions):
            diverged_systems.add(system)
            continue
        test = predictions["splits"] == "test"
        predicted = predictions["logits"][test].argmax(axis=1)
        is_correct = predicted == predictions["labels"][test]
        correct_by_system.setdefault(system, []).append(is_correct)
    correct_by_request: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for (dataset, rate, method), correct_by_seed in correct_by_system.items():
        if (dataset, rate, method) not in diverged_systems:
            systems = correct_by_request.setdefault((dataset, rate), {})
            systems[method] = np.stack(correct_by_seed)
    rows: list[dict[str, object]] = []
    for (dataset, rate), correct_by_method in correct_by_request.items():
        names = list(correct_by_method)
        for first, method in enumerate(names):
            for other in names[first + 1 :]:
                gains = correct_by_method[method].astype(float) - correct_by_method[other]
                pair = {"dataset": dataset, "rate": rate, "method": method, "other": other}
                rows.append(pair | compare_pair(gains))
    return rows


def compare_pair(gains: np.ndarray) -> dict[str, object]:
    """Return the mean gain in points, with an interval over seeds and test samples.

    Two intervals are combined by the root of the sum of their squares: Student's over the seeds'
    means, and that of Agresti and Min (2005, "Wald + 2") over test samples. Both include the
    variation between seeds, so the interval is conservative.

    Parameters
    ----------
    gains
        (seeds, tested) numbers: 1 if only the first system is correct, -1 if only the other is.
    """
    seeds, tested = gains.shape
    sample_means = gains.mean(axis=0)
    # "Wald + 2" adds half a sample to each of the four outcomes (both systems correct, only the
    # first, only the other, neither). Otherwise, a few samples on which they differ would look like
    # proof.
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
