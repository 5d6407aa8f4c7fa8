"""Distance to the oracle beside its floor: how far apart two oracles are that differ in their seeds alone."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from munkey.audits.evidence import Compared
from munkey.audits.registry import Estimate, Finding, Refused, audit
from munkey.audits.roc import DRAWS

ROUNDING = 1e-12  # nats; two oracles that differ in less were fitted without chance


@dataclass(frozen=True)
class Distance(Finding):
    """Jensen-Shannon divergence, nats; 0 to log 2. ratio: value / floor. Intervals: bootstrap over samples."""

    value: Estimate
    floor: Estimate
    ratio: Estimate


@audit(
    "distance",
    title="Distance over floor",
    needs="oracles",
    definition="Jensen-Shannon divergence of predictions to each oracle, over that between two oracles",
    source="Lin 1991; a floor from independent oracles: this project",
)
def distance(compared: Compared, generator: np.random.Generator) -> Distance | Refused:
    """Means over the forget set, and over all pairs of an unlearned model and an oracle, or of two oracles."""
    if len(compared.oracles) < 2:
        return Refused(f"the floor needs 2 oracles or more; there are {len(compared.oracles)}")
    models, oracles = ([_log_softmax(each) for each in part] for part in (compared.unlearned, compared.oracles))
    value = np.mean([jensen_shannon(one, other) for one in models for other in oracles], axis=0)
    floor = np.mean([jensen_shannon(*both) for both in combinations(oracles, 2)], axis=0)
    if floor.mean() < ROUNDING:
        return Refused("the oracles answer alike, so there is no floor")
    drawn = generator.integers(len(value), size=(DRAWS, len(value)))
    means = [(part.mean(), part[drawn].mean(axis=1)) for part in (value, floor)]
    means.append((means[0][0] / means[1][0], means[0][1] / means[1][1]))
    return Distance(*(Estimate(float(mean), *np.percentile(draws, [2.5, 97.5]).tolist()) for mean, draws in means))


def jensen_shannon(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(n,): half the sum of both divergences to the mean, of log-probabilities (n, C) each. Nats."""
    middle = np.logaddexp(one, other) - np.log(2)
    return np.asarray(sum((np.exp(each) * (each - middle)).sum(axis=1) for each in (one, other)) / 2)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    from scipy.special import log_softmax

    return np.asarray(log_softmax(logits.astype(np.float64), axis=1))
