"""U-LiRA: is a margin more likely if the model deleted the sample, or if it never saw it?"""

import numpy as np

from munkey.audits.evidence import Pairs, Roles, split_by_role
from munkey.audits.registry import NoFinding, audit
from munkey.audits.roc import TOLERANCE, Attack, Scores, attack_pairs


@audit(
    "u-lira",
    title="U-LiRA",
    needs="pairs",
    definition=(
        "likelihood ratio of two Gaussians for each sample, with a pooled variance: margins of the"
        " other pairs' models that deleted it, and never saw it"
    ),
    source="Hayes et al. 2024, arXiv 2403.01218",
)
def u_lira(pairs: Pairs, generator: np.random.Generator) -> Attack | NoFinding:
    """Attack with Gaussians fitted to all pairs except the target's.

    Returns NoFinding if there are fewer than three pairs.
    """
    score = make_scores(pairs)
    if isinstance(score, NoFinding):
        return score
    return attack_pairs(score, pairs, generator)


def make_scores(pairs: Pairs) -> Scores | NoFinding:
    """Make the function that maps halves to log-likelihood ratios.

    Returns NoFinding if there are fewer than three pairs.
    """
    if pairs.count < 3:
        return NoFinding(
            "U-LiRA needs 3 pairs of models to fit its Gaussians and attack another; there are"
            f" {pairs.count}"
        )
    return lambda first: compute_log_ratios(pairs.scores, first)


def compute_log_ratios(normal_scores: np.ndarray, first: np.ndarray) -> Roles:
    """Compute log N(score; deleted) - log N(score; never seen) for normal scores (S, n).

    Each sample has its own two means, over all other pairs. The variance is pooled over both roles,
    all samples and all other pairs, because a few pairs cannot estimate it for each sample.
    """
    scores = split_by_role(normal_scores, first)
    others = len(first) - 1  # number of pairs besides the target's
    samples = first.shape[1]
    mean_deleted = (scores.deleted.sum(axis=0) - scores.deleted) / others
    mean_absent = (scores.absent.sum(axis=0) - scores.absent) / others
    squares = _sum_squares_of_others(scores.deleted, mean_deleted)
    squares = squares + _sum_squares_of_others(scores.absent, mean_absent)
    degrees_of_freedom = 2 * samples * (others - 1)
    variance = squares.sum(axis=1, keepdims=True) / degrees_of_freedom + TOLERANCE**2

    def compute_log_ratio(x: np.ndarray) -> np.ndarray:
        # Both densities have the same variance, so their normalizing factors cancel.
        return np.asarray(((x - mean_absent) ** 2 - (x - mean_deleted) ** 2) / (2 * variance))

    return Roles(compute_log_ratio(scores.deleted), compute_log_ratio(scores.absent))


def _sum_squares_of_others(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Sum, for each pair, the squared deviations of all other pairs from their mean: (P, n)."""
    return np.asarray((x**2).sum(axis=0) - x**2 - (len(x) - 1) * means**2)
