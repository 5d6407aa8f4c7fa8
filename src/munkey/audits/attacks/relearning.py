"""Relearning: does further training on only the retain set bring forgotten samples back?

Knowledge that was only hidden comes back faster than a model that never had it can acquire it. The
reference is the oracle after the same further training.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from munkey.audits.evidence import Curves
from munkey.audits.registry import Finding, audit

Role = Literal["nothing", "oracle", "method"]


@dataclass(frozen=True)
class Spread(Finding):
    """Mean and standard deviation over n seeds.

    Attributes
    ----------
    sd
        The standard deviation with ddof 1; NaN for one seed.
    """

    mean: float
    sd: float
    n: int


@dataclass(frozen=True)
class RelearningFinding(Finding):
    """Differences from the oracle's curve, in the unit of the curves; positive if above the oracle.

    Attributes
    ----------
    before
        The difference at the first step.
    highest
        The largest difference over all steps.
    area
        The average difference over all steps.
    """

    before: Spread
    highest: Spread
    area: Spread


@audit(
    "relearning",
    title="Relearning",
    needs="curves",
    definition=(
        "how far the forget set's accuracy or margin rises above the oracle's when both train"
        " on the retain set"
    ),
    source="arXiv 2505.22310; comparison with the oracle: ours",
)
def relearning(curves: Curves, generator: np.random.Generator | None = None) -> RelearningFinding:
    """Compare each seed with its own oracle, and average over seeds. Uses no random numbers."""
    differences = curves.system - curves.oracle
    area = np.trapezoid(differences, curves.steps, axis=1)
    return RelearningFinding(
        before=_summarize(differences[:, 0]),
        highest=_summarize(differences.max(axis=1)),
        area=_summarize(area / (curves.steps[-1] - curves.steps[0])),
    )


def _summarize(values: np.ndarray) -> Spread:
    """Return the mean and standard deviation of one value per seed."""
    sd = values.std(ddof=1) if len(values) > 1 else np.nan
    return Spread(float(values.mean()), float(sd), len(values))
