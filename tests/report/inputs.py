"""A small experiment, measured and summarized, that the tests of the report share."""

import itertools

import pandas as pd

from munkey.evaluation.paired import COLUMNS
from munkey.report.tables.summary import GAP_METRICS, Row, add_differences

ROWS = [
    Row("original-t", "Original (T)", "retrain-t", context=True),
    Row("retrain-t", "Retrain (T)", None),
    Row("knn", "KNN", None),
    Row("cf", "CF", "retrain-t"),
    Row("scrub", "SCRUB", "retrain-t"),
]
KEYED_ROWS = [
    Row("original-m", "Original (M)", None, context=True),
    *ROWS,
    Row("lda", "LDA", None),
    Row("munkey", "MUNKEY", None),
]
# TA, RA, FA, MIA of seeds 0, 1, 2
MEASURED = {
    "original-t": [(80, 100, 100, 70), (80, 100, 100, 70), (80, 100, 100, 70)],
    "retrain-t": [(80, 100, 70, 50), (82, 100, 72, 52), (84, 100, 74, 48)],
    "knn": [(75, 90, 74, 50), (75, 90, 74, 50), (75, 90, 74, 50)],
    "cf": [(78, 99, 80, 60), (80, 97, 84, 62), (85, 98, 82, 64)],
    "scrub": [(82, 100, 73, 50), (82, 100, 73, 50), (82, 100, 73, 54)],
}

# An ablation: the name, its title and its oracle are made up, because the tables must not depend on them.
CASE_ROWS = [
    Row("before", "Before", "anew", context=True),
    Row("anew", "Anew", None),
    Row("after", "After", "anew"),
]
CASES = {
    "inference.fusion/ensemble": 2.0,
    "inference.fusion/rank": 4.0,
    "inference.k/8": 1.0,
    "munkey.architecture/direct-key": 8.0,
    "aggregation/ensemble": 3.0,
    "aggregation/rank": 5.0,
}


def tidy(measured=MEASURED, rate=0.1, dataset="digits"):
    """Metrics, a line for each value."""
    lines = []
    for method, seeds in measured.items():
        for seed, values in enumerate(seeds):
            for metric, value in zip(GAP_METRICS, values, strict=True):
                lines.append((seed, method, metric, float(value)))
    return extra(lines, dataset, rate)


def extra(lines, dataset="digits", rate=0.1):
    """Further metrics. lines: (seed, method, metric, value)."""
    metrics = pd.DataFrame(lines, columns=["seed", "method", "metric", "value"])
    metrics.insert(0, "dataset", dataset)
    metrics.insert(1, "rate", rate)
    return metrics


def assert_in_order(text, parts):
    """Every part is in the text, in this order and without overlap."""
    rest = text
    for part in parts:
        assert part in rest
        rest = rest.partition(part)[2]


def line(summary, method):
    """The line of a method."""
    return summary.set_index("method").loc[method]


def cases(dataset="digits", gaps=CASES, methods=("before", "anew", "after")):
    """Two seeds; the four metrics after deletion lie `gap` above the case's own oracle, and oracles differ.

    Before deletion the gap is smaller still, but that is not a result.
    """
    before, oracle, after = methods
    parts = []
    for number, (case, gap) in enumerate(gaps.items()):
        lines = []
        for method, shift in ((oracle, 0.0), (after, gap), (before, 0.25)):
            for seed in (0, 1):
                value = 50.0 + 10 * number + shift + seed
                lines += [(seed, method, metric, value) for metric in GAP_METRICS]
                lines.append((seed, method, "P_s", 0.1 + seed / 10))
        parts.append(extra(lines, dataset).assign(case=case))
    return pd.concat(parts, ignore_index=True)


def pairs(summary, half=1.0):
    """Differences between all systems of a summary, as `compare_systems` makes them: each ± `half` points."""
    lines = []
    for (dataset, rate), part in summary.groupby(["dataset", "rate"], sort=False):
        systems = part.dropna(subset="TA_mean").to_dict("records")
        for system, other in itertools.combinations(systems, 2):
            difference = system["TA_mean"] - other["TA_mean"]
            lines.append(
                {"dataset": dataset, "rate": rate}
                | {"method": system["method"], "other": other["method"]}
                | {"seeds": system["n"], "tested": 450, "difference": difference}
                | {"low": difference - half, "high": difference + half}
            )
    return pd.DataFrame(lines, columns=COLUMNS)


def compared(summary, half=1.0):
    """A summary with these differences."""
    return add_differences(summary, pairs(summary, half))


DOLLARS = r"$x$ \frac{$"  # no formula: drawn as one, it ended the run
