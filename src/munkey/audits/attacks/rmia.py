"""Offline RMIA: does the model's confidence in a sample exceed that of reference models?"""

import numpy as np

from munkey.audits.evidence import Pairs, Roles, split_by_role
from munkey.audits.margins import count_below
from munkey.audits.registry import NoFinding, audit
from munkey.audits.roc import TOLERANCE, Attack, Scores, attack_pairs

GAMMA = 1.0  # a sample's ratio must be this many times that of a test sample; 1 and 2 in the paper
SLOPE = 0.3  # the paper's a: training on a sample changes its confidence from p to a * p + 1 - a


@audit(
    "rmia",
    title="RMIA",
    needs="pairs",
    definition=(
        "share of test samples whose confidence exceeds that of reference models by less than"
        " the sample's"
    ),
    source="Zarifzadeh et al. 2024",
)
def rmia(pairs: Pairs, generator: np.random.Generator) -> Attack | NoFinding:
    """Attack with reference models from other pairs. Returns NoFinding for a single pair."""
    score = make_scores(pairs)
    if isinstance(score, NoFinding):
        return score
    return attack_pairs(score, pairs, generator)


def make_scores(pairs: Pairs, gamma: float = GAMMA, slope: float = SLOPE) -> Scores | NoFinding:
    """Make the function that maps halves to the share of test samples that each sample exceeds.

    A confidence is not a probability, but a rank among the model's own test samples, so it does not
    depend on the scale of the logits. Returns NoFinding for a single pair.

    Parameters
    ----------
    gamma, slope
        As explained at GAMMA and SLOPE.
    """
    if pairs.count < 2:
        return NoFinding(
            "RMIA needs 2 pairs of models: one is the reference of the other; there is 1"
        )
    test_margins = pairs.margins[:, pairs.halves.test]
    size = test_margins.shape[1]
    test_counts = count_below(test_margins, np.ones(size, dtype=bool))
    pool_confidence = (pairs.pool_counts + 0.5) / (size + 1)
    test_confidence = (test_counts + 0.5) / (size + 1)
    # No model saw a test sample, so both models of each other pair are references.
    test_references = _average_others(test_confidence[::2] + test_confidence[1::2]) / 2
    test_ratios = gamma * compute_ratios(test_confidence, test_references, slope)
    sorted_test_ratios = np.sort(_round(test_ratios), axis=1)

    def compute_exceeded_shares(first: np.ndarray) -> Roles:
        # Pr_z [p(x | target) / p(x) >= gamma p(z | target) / p(z)] over test samples z
        references = _average_others(split_by_role(pool_confidence, first).absent)
        pool_ratios = _round(compute_ratios(pool_confidence, references, slope))
        shares = np.empty(pool_ratios.shape)
        for model, thresholds in enumerate(sorted_test_ratios):
            exceeded = np.searchsorted(thresholds, pool_ratios[model], side="right")
            shares[model] = exceeded / size
        return split_by_role(shares, first)

    return compute_exceeded_shares


def compute_ratios(confidence: np.ndarray, references: np.ndarray, slope: float) -> np.ndarray:
    """Return p(x | target) / p(x), each model's confidence relative to the average: (S, n).

    p(x) is the average confidence of models that never saw x and of models that were trained on x.
    The latter is estimated as slope * references + 1 - slope.

    Parameters
    ----------
    confidence
        The confidence (S, n) of each model.
    references
        For each pair, the mean confidence (P, n) of reference models that never saw x.
    """
    average = ((1 + slope) * references + 1 - slope) / 2
    both_partners = np.repeat(average, 2, axis=0)  # models 2p and 2p + 1 have the same references
    return np.asarray(confidence / both_partners)


def _average_others(values: np.ndarray) -> np.ndarray:
    """Return, for each pair, the mean of values (P, n) over all other pairs."""
    return np.asarray((values.sum(axis=0) - values) / (len(values) - 1))


def _round(values: np.ndarray) -> np.ndarray:
    """Round to multiples of TOLERANCE, so that values that differ only by rounding errors tie."""
    return np.round(values / TOLERANCE) * TOLERANCE
