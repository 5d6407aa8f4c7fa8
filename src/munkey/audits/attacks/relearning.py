"""Relearning: does what was forgotten come back when the system is trained on the retain set alone?

What is only hidden comes back sooner than what was never there; the oracle, under the same steps, is the reference.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.evidence import Curves
from munkey.audits.registry import Finding, audit

Role = Literal["nothing", "oracle", "method"]


class RelearnedSystem(TypedDict):
    """A system as the plan lists it (munkey.experiment.plan.relearning). curves: files, one for each seed."""

    name: str
    title: str
    role: Role
    family: str
    curves: list[str]


@dataclass(frozen=True)
class Spread(Finding):
    """Over n seeds. sd: ddof 1; NaN for one seed."""

    mean: float
    sd: float
    n: int


@dataclass(frozen=True)
class Relearned(Finding):
    """How far above the oracle's curve, in the curves' unit; negative: below.

    before: at the first step; highest: at the step where it is most; area: on average over all steps.
    """

    before: Spread
    highest: Spread
    area: Spread


@audit(
    "relearning",
    title="Relearning",
    needs="curves",
    definition="how far the forget set's accuracy or margin rises above the oracle's when both train on the retain set",
    source="after arXiv 2505.22310; against the oracle under the same steps: this project",
)
def relearning(curves: Curves, generator: np.random.Generator | None = None) -> Relearned:
    """Each seed by itself, then mean and sd; nothing is drawn. The area is that under straight lines between points."""
    above = curves.system - curves.oracle
    area = np.trapezoid(above, curves.steps, axis=1) / (curves.steps[-1] - curves.steps[0])
    return Relearned(*(_spread(values) for values in (above[:, 0], above.max(axis=1), area)))


def _spread(values: np.ndarray) -> Spread:
    sd = values.std(ddof=1) if len(values) > 1 else np.nan
    return Spread(float(values.mean()), float(sd), len(values))
