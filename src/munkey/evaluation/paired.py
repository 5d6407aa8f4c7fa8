"""Differences in test accuracy between two systems that answer the same test samples."""

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

    The columns of a line are dataset, rate, method, other, seeds, tested (the number of test
    samples), difference (of method less other, in points) and its 95 % interval, low and high. A
    system that diverged for any seed has no lines.

    Parameters
    ----------
    runs
        The evaluations of one data set, for all seeds.
    """
    flags_by_system: dict[tuple[str, str, str], list[np.ndarray]] = {}
    diverged_systems = set()
    for run in runs:
        system = (run.dataset, run.rate, run.method)
        predictions = read_npz(run.logits)
        if explain_divergence(predictions):
            diverged_systems.add(system)
            continue
        test = predictions["splits"] == "test"
        answers = predictions["logits"][test].argmax(axis=1)
        flags_by_system.setdefault(system, []).append(answers == predictions["labels"][test])
    right_by_request: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for (dataset, rate, method), flags in flags_by_system.items():
        if (dataset, rate, method) not in diverged_systems:
            right_by_request.setdefault((dataset, rate), {})[method] = np.stack(flags)
    rows: list[dict[str, object]] = []
    for (dataset, rate), right_by_method in right_by_request.items():
        names = list(right_by_method)
        for first, method in enumerate(names):
            for other in names[first + 1 :]:
                gains = right_by_method[method].astype(float) - right_by_method[other]
                pair = {"dataset": dataset, "rate": rate, "method": method, "other": other}
                rows.append(pair | compare_pair(gains))
    return rows


def compare_pair(gains: np.ndarray) -> dict[str, object]:
    """Return the mean gain in points, with an interval over seeds and test samples.

    Two intervals are combined by the root of their sum of squares: Student's over the seeds' means,
    and that of Agresti and Min (2005, "Wald + 2") over test samples. What varies between seeds is a
    part of both, so the interval is conservative.

    Parameters
    ----------
    gains
        (seeds, tested) numbers: 1 if only the first system is right, -1 if only the other is.
    """
    seeds, tested = gains.shape
    sample_means = gains.mean(axis=0)
    # As if two more test samples had been seen, one won and one lost by half a point each: without
    # them, a handful of samples on which the two differ would look like proof.
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
