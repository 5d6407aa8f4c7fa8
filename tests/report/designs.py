"""A made-up frontier of designs, gaps of ranks and costs of methods, for tables, sentences and figures."""

import numpy as np
import pandas as pd

from munkey.report.tables.frontier import Design
from munkey.report.tables.ranks import INDEX
from tests.report.inputs import compared

KINDS = {"anew": "anew", "lda": "exact", "munkey": "rows", "cf": "weights", "ssd": "weights"}
DESIGNS = [Design(name, name.upper(), kind, f"{name}'s", "–") for name, kind in KINDS.items()]
# mean and standard deviation
ACCURACY = {
    "anew": (99.0, 0.5),
    "lda": (96.0, 0.4),
    "munkey": (95.0, 0.8),
    "cf": (98.5, 0.3),
    "ssd": (98.3, 0.4),
}
ACCURACY_OF_ONE_SEED = {name: (mean, np.nan) for name, (mean, _) in ACCURACY.items()}
# residual share, the ends of its interval, and other columns
AUDIT = {
    "lda": (0.0, 0.0, 0.0, {"contrast": 0.0, "equal": True}),
    "munkey": (1.6, 1.0, 2.2, {}),
    "cf": (27.0, 16.0, 38.0, {}),
}


def summary(accuracy=ACCURACY, rate=0.1, half=1.5):
    """A summary of these accuracies; half: of the intervals of all differences, in points."""
    lines = []
    for name, (mean, sd) in accuracy.items():
        line = {"dataset": "digits", "rate": rate, "method": name, "n": 3}
        line |= {"TA_mean": mean, "TA_sd": sd, "gap_mean": 1.0, "gap_sd": 0.1}
        lines.append(line | {"unlearn_s_mean": 0.02, "train_s_mean": 20.0})
    return compared(pd.DataFrame(lines), half)


def audit_table(**shares):
    """An audit of systems by name: residual share, low, high, and other columns of the row.

    Each has a family of its name, whose original has a contrast of 0.5. The interval of what is left
    of it ends at 0, since the p of the test over pairs is 0.05. U-LiRA has an AUROC of 60.
    """
    lines = []
    for name, (share, low, high, columns) in shares.items():
        line = {"family": name, "name": name, "path": "deployed", "role": "method"}
        line |= {"verdict": "residue", "flagged": "share", "equal": False}
        line |= {"contrast": share / 100 * 0.5, "pairs": 3, "p_pairs": 0.05}
        line |= {"u-lira_auroc": 60.0, "u-lira_auroc_low": 55.0, "u-lira_auroc_high": 64.0}
        lines.append(line | {"share": share, "share_low": low, "share_high": high} | columns)
        original = {"family": name, "name": f"original of {name}", "path": "deployed"}
        lines.append(original | {"role": "nothing", "contrast": 0.5, "equal": False})
    return pd.DataFrame(lines)


def gap_index(seeds, rates=(0.1, 0.02)):
    """The index of gaps on digits."""
    return pd.MultiIndex.from_product([["digits"], range(seeds), rates], names=INDEX)


def gaps(seeds=6, **columns):
    """Gaps of methods; by default a < b < c at every seed and rate."""
    return pd.DataFrame({"a": 1.0, "b": 2.0, "c": 3.0} | columns, index=gap_index(seeds))


def method_costs():
    """A summary of nine methods with gaps and seconds."""
    costs = {
        "title": ["CF", "CF-k", "EU-k", "NegGrad+", "Amnesiac", "SCRUB", "SSD", "AMUN", "MUNKEY"],
        "unlearn_s_mean": [6.2, 2.3, 1.9, 9.9, 5.4, 7.5, 1.0, 20.0, 0.008],
        "gap_mean": [1.2, 1.6, 1.1, 1.9, 1.85, 1.4, 2.2, 2.6, 0.3],
    }
    return pd.DataFrame(costs).assign(dataset="digits", rate=0.1, gap_sd=0.7, n=3)
