"""U-LiRA: is this margin likelier of a model that deleted the sample, or of one that never saw it?"""

import numpy as np

from munkey.audits.evidence import Pairs, Roles, roles
from munkey.audits.registry import Refused, audit
from munkey.audits.roc import TOLERANCE, Attack, Scores, attacked


@audit(
    "u-lira",
    title="U-LiRA",
    needs="pairs",
    definition="likelihood ratio of two Gaussians for each sample: margins of models that deleted it, and never saw it",
    source="Hayes et al. 2024, arXiv 2403.01218",
)
def u_lira(pairs: Pairs, generator: np.random.Generator) -> Attack | Refused:
    """Needs three pairs: a sample's Gaussians are fitted to the pairs that are not attacked."""
    score = scores(pairs)
    return score if isinstance(score, Refused) else attacked(score, pairs, generator)


def scores(pairs: Pairs) -> Scores | Refused:
    """Log-likelihood ratios, as a function of the halves."""
    if pairs.count < 3:
        return Refused(
            f"U-LiRA needs 3 pairs of models to fit its Gaussians and attack another; there are {pairs.count}"
        )
    return lambda first: log_ratios(pairs.scores, first)


def log_ratios(phi: np.ndarray, first: np.ndarray) -> Roles:
    """log N(phi; deleted) - log N(phi; never seen), of normal scores (S, n) under Halves.first.

    The means are those of the sample, over the other pairs: neither the target nor its partner is among them. The
    variance is one for each target, that about these means, pooled over both kinds, all samples and all other pairs.
    """
    known = roles(phi, first)
    others = len(first) - 1
    deleted, absent = ((part.sum(axis=0) - part) / others for part in known)
    squares = sum(
        (x**2).sum(axis=0) - x**2 - others * mean**2 for x, mean in zip(known, (deleted, absent), strict=True)
    )
    variance = squares.sum(axis=1, keepdims=True) / (2 * first.shape[1] * (others - 1)) + TOLERANCE**2
    return Roles(*(((x - absent) ** 2 - (x - deleted) ** 2) / (2 * variance) for x in known))
