"""RMIA, offline: is a sample's confidence raised above its usual one by more than that of samples nobody trained on?"""

import numpy as np

from munkey.audits.evidence import Pairs, Roles, roles
from munkey.audits.margins import below
from munkey.audits.registry import Refused, audit
from munkey.audits.roc import TOLERANCE, Attack, Scores, attacked

GAMMA = 1.0  # by how much a sample must beat a test sample; the paper uses 1 and 2
SLOPE = 0.3  # the paper's a: confidence once trained on is taken as a * confidence + 1 - a


@audit(
    "rmia",
    title="RMIA",
    needs="pairs",
    definition="share of test samples whose confidence exceeds that of reference models by less than the sample's",
    source="Zarifzadeh et al. 2024, Low-Cost High-Power Membership Inference Attacks",
)
def rmia(pairs: Pairs, generator: np.random.Generator) -> Attack | Refused:
    """Needs two pairs: the reference models of a target are those of the other pairs that never saw the sample."""
    score = scores(pairs)
    return score if isinstance(score, Refused) else attacked(score, pairs, generator)


def scores(pairs: Pairs, gamma: float = GAMMA, slope: float = SLOPE) -> Scores | Refused:
    """Shares of test samples that are beaten, as a function of the halves.

    Confidence is the rank among the model's own test samples, not a probability: to scale all answers changes nothing.
    """
    if pairs.count < 2:
        return Refused("RMIA needs 2 pairs of models: one is the reference of the other; there is 1")
    own = pairs.margins[:, pairs.halves.test]
    ranks = below(own, np.ones(own.shape[1], dtype=bool))
    pool, test = ((counts + 0.5) / (own.shape[1] + 1) for counts in (pairs.below, ranks))
    reference = np.sort(_rounded(gamma * ratios(test, _others(test[::2] + test[1::2]) / 2, slope)), axis=1)

    def beaten(first: np.ndarray) -> Roles:
        raised = _rounded(ratios(pool, _others(roles(pool, first).absent), slope))
        counts = [np.searchsorted(*each, side="right") for each in zip(reference, raised, strict=True)]
        return roles(np.array(counts) / test.shape[1], first)

    return beaten


def ratios(confidence: np.ndarray, out: np.ndarray, slope: float) -> np.ndarray:
    """p(x; target) / p(x): confidence (S, n) of each model over what is usual, from that of models that never saw x.

    out: (P, n), for the targets of each pair. p(x) = ((1 + a) out + 1 - a) / 2, the mean of out and a * out + 1 - a.
    """
    usual = ((1 + slope) * out + 1 - slope) / 2
    return np.asarray(confidence / np.repeat(usual, 2, axis=0))


def _others(values: np.ndarray) -> np.ndarray:
    """Mean of values (P, n) over all pairs but one, for each pair."""
    return np.asarray((values.sum(axis=0) - values) / (len(values) - 1))


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.round(values / TOLERANCE) * TOLERANCE
