"""Distance to the oracle, divided by its floor, the distance between oracles of different seeds."""

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from munkey.audits.evidence import OracleComparison
from munkey.audits.registry import Estimate, Finding, NoFinding, audit
from munkey.audits.roc import DRAWS

MIN_FLOOR = 1e-12  # nats; a smaller floor is a rounding error, and the oracles predict the same


@dataclass(frozen=True)
class Distance(Finding):
    """Jensen-Shannon divergences in nats, 0 to log 2, with bootstrap intervals over samples.

    Attributes
    ----------
    value
        The mean divergence between an unlearned model and an oracle.
    floor
        The mean divergence between two oracles.
    ratio
        value / floor.
    """

    value: Estimate
    floor: Estimate
    ratio: Estimate


@audit(
    "distance",
    title="Distance over floor",
    needs="oracles",
    definition=(
        "Jensen-Shannon divergence of predictions to each oracle, over that between two oracles"
    ),
    source="Lin 1991; floor: ours",
)
def distance(comparison: OracleComparison, generator: np.random.Generator) -> Distance | NoFinding:
    """Average the divergences over forget samples and over all pairs of models.

    Returns NoFinding if there are fewer than two oracles, or if all oracles predict the same.
    """
    if len(comparison.oracles) < 2:
        return NoFinding(f"the floor needs at least 2 oracles; there are {len(comparison.oracles)}")
    models = [_log_softmax(logits) for logits in comparison.unlearned]
    oracles = [_log_softmax(logits) for logits in comparison.oracles]
    to_oracles = [
        compute_jensen_shannon(model, oracle) for model, oracle in product(models, oracles)
    ]
    between_oracles = [
        compute_jensen_shannon(one, other) for one, other in combinations(oracles, 2)
    ]
    value = np.mean(to_oracles, axis=0)  # (n,)
    floor = np.mean(between_oracles, axis=0)  # (n,)
    if floor.mean() < MIN_FLOOR:
        return NoFinding("the oracles predict the same, so there is no floor")
    resampled = generator.integers(len(value), size=(DRAWS, len(value)))
    value_draws = value[resampled].mean(axis=1)
    floor_draws = floor[resampled].mean(axis=1)
    return Distance(
        value=_estimate(value.mean(), value_draws),
        floor=_estimate(floor.mean(), floor_draws),
        ratio=_estimate(value.mean() / floor.mean(), value_draws / floor_draws),
    )


def compute_jensen_shannon(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Compute the Jensen-Shannon divergences (n,) between log-probabilities (n, C), in nats."""
    # JS(p, q) = (KL(p | m) + KL(q | m)) / 2 with m = (p + q) / 2 (Lin 1991)
    log_mean = np.logaddexp(one, other) - np.log(2)
    kl_one = (np.exp(one) * (one - log_mean)).sum(axis=1)
    kl_other = (np.exp(other) * (other - log_mean)).sum(axis=1)
    return np.asarray((kl_one + kl_other) / 2)


def _estimate(value: float, draws: np.ndarray) -> Estimate:
    """Return a value with the 95% percentile interval of its bootstrap draws."""
    low, high = np.percentile(draws, [2.5, 97.5])
    return Estimate(float(value), float(low), float(high))


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the log-probabilities (n, C) of logits (n, C), in float64."""
    from scipy.special import log_softmax

    return np.asarray(log_softmax(logits.astype(np.float64), axis=1))
