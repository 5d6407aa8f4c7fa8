"""Differencing: whoever holds a system before and after a deletion names what was deleted in between."""

from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Versions
from munkey.audits.registry import Finding, audit


@dataclass(frozen=True)
class Named(Finding):
    """Percent, means over deletions. Candidates that tie are in random order.

    precision: where b were deleted, the share of them among the b most suspected; auroc: how often one that was deleted
    is suspected more than one that was kept.
    """

    precision: float
    auroc: float


@audit(
    "differencing",
    title="Differencing",
    needs="versions",
    definition="how well whoever holds the versions before and after a deletion names what was deleted",
    source="after Chen et al. 2021, arXiv 2005.02205; attackers and measures: this project",
)
def differencing(versions: Versions, generator: np.random.Generator | None = None) -> Named:
    """Nothing is drawn: ties count by their expectation."""
    from scipy.stats import rankdata

    found = []
    for scores, deleted in zip(versions.scores, versions.deleted, strict=True):
        count, bar = deleted.sum(), np.sort(scores)[-deleted.sum()]
        hits = deleted[scores > bar].sum() + deleted[scores == bar].mean() * (count - (scores > bar).sum())
        auroc = (rankdata(scores)[deleted].mean() - (count + 1) / 2) / (len(scores) - count)
        found.append((100 * hits / count, 100 * auroc))
    return Named(*map(float, np.mean(found, axis=0)))
