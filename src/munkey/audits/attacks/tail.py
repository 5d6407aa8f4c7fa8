"""Tail: an average hides the few of whom much is left, and answers that were pushed both ways. This does not."""

from dataclasses import dataclass

import numpy as np

from munkey.audits.attacks.residual_share import ratio
from munkey.audits.evidence import Pairs, Roles, of_other_fold, roles
from munkey.audits.redraws import Statistics
from munkey.audits.registry import Estimate, Finding, Refused, audit
from munkey.audits.roc import TOLERANCE


@dataclass(frozen=True)
class Tail(Finding):
    """square: mean over samples of the squared mean difference, over what chance gives; 1 where nothing is left.

    tenth: the contrast of the tenth that keeps most; tenth_share: in percent of what doing nothing leaves of the same
    samples. scatter: squared distance from a sample's usual score where deleted, over that where never seen; 1 where
    nothing is left.
    """

    square: float
    tenth: float
    tenth_share: Estimate
    scatter: float


@audit(
    "tail",
    title="Tail",
    needs="pairs",
    definition="squared mean differences; the tenth that keeps most; how answers scatter around the usual one",
    source="this project",
)
def tail(pairs: Pairs, _: np.random.Generator | None = None) -> Tail | Refused:
    """The tenth of each pair is chosen by other pairs, so that chance does not lift it. Needs two pairs."""
    if pairs.count < 2:
        return Refused("a tail needs 2 pairs of models: one chooses the samples that are looked at in the other")
    first, nothing = pairs.halves.first, pairs.nothing or pairs
    signed = signs(first) * pairs.apart
    chosen = most(signed)
    own = np.take_along_axis(signed, chosen, 1).mean(axis=1)
    left = np.take_along_axis(signs(first) * nothing.apart[: len(first)], chosen, 1).mean(axis=1)
    chance = (pairs.apart**2).mean() / len(first)
    square = float((signed.mean(axis=0) ** 2).mean() / chance) if chance else 1.0
    scattered = float(np.exp(scatter(distances(pairs.scores, first))))
    return Tail(square, float(own.mean()), ratio(own, left, paired=True), scattered)


def statistics(pairs: Pairs) -> Statistics:
    """What is tested, as a function of the halves: squares and cubes of mean differences; and of distances to a
    sample's usual score their scatter, their mean in each model, and their distribution (Kolmogorov and Smirnov).

    Cubes weigh the few of whom much is left, and find them where the contrast of a tenth does not yet.
    """

    def found(first: np.ndarray) -> dict[str, float]:
        means = (signs(first) * pairs.apart).mean(axis=0)
        away = distances(pairs.scores, first)
        (one, other), (other_absent, one_absent) = ([_mean(each, half) for half in (first, ~first)] for each in away)
        points = np.sort(away, axis=None)
        deleted, absent = (np.searchsorted(np.sort(each, axis=None), points, "right") / each.size for each in away)
        return {
            "square": float((means**2).mean()),
            "few": float((means**3).mean()),
            "scatter": abs(scatter(away)),
            "level": float(((one - one_absent) ** 2 + (other - other_absent) ** 2).sum()),
            "shape": float(np.abs(deleted - absent).max()),
        }

    return found


def signs(first: np.ndarray) -> np.ndarray:
    """1 where model 2p deleted the sample, -1 where its partner did."""
    return np.where(first, 1.0, -1.0)


def most(signed: np.ndarray) -> np.ndarray:
    """(P, n / 10): for each pair, the samples whose mean difference over the other fold's pairs is largest."""
    size = max(signed.shape[1] // 10, 1)
    return np.argpartition(-of_other_fold(signed), size - 1, axis=1)[:, :size]


def scatter(away: Roles) -> float:
    """Log ratio, deleted to absent, of mean squared distances."""
    deleted, absent = (np.log((each**2).mean() + TOLERANCE) for each in away)
    return float(deleted - absent)


def distances(scores: np.ndarray, first: np.ndarray) -> Roles:
    """Scores less the sample's mean where never seen, over the other pairs."""
    deleted, absent = roles(scores, first)
    usual = (absent.sum(axis=0) - absent) / (len(first) - 1)
    return Roles(deleted - usual, absent - usual)


def _mean(values: np.ndarray, half: np.ndarray) -> np.ndarray:
    """(P,): over the samples of a half, (P, n) bool."""
    return np.asarray((values * half).sum(axis=1) / half.sum(axis=1))
