"""Tail: an average hides the few of whom much is left, and answers that were pushed both ways. This does not."""

from collections.abc import Callable
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
    definition="squared mean differences; the tenth that keeps most; scatter; whether what is left follows memory",
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
    """What is tested, as a function of the halves.

    square, few: mean squared and cubed mean differences. Cubes weigh the few of whom much is left, and find them where
    the contrast of a tenth does not yet. scatter, level: of distances to a sample's usual score, their mean square and
    their mean in each model. shape: how far two pairs' scores of a sample lie apart, as a distribution (Kolmogorov and
    Smirnov). memory: whether more, or less, is left of what was memorized more.
    """
    memory = memory_statistic(pairs)

    def found(first: np.ndarray) -> dict[str, float]:
        means = (signs(first) * pairs.apart).mean(axis=0)
        away = distances(pairs.scores, first)
        (one, other), (other_absent, one_absent) = ([_mean(each, half) for half in (first, ~first)] for each in away)
        values = {
            "square": float((means**2).mean()),
            "few": float((means**3).mean()),
            "scatter": abs(scatter(away)),
            "level": float(((one - one_absent) ** 2 + (other - other_absent) ** 2).sum()),
            "shape": shape(roles(pairs.scores, first)),
        }
        if memory is not None:
            values["memory"] = memory(first)
        return values

    return found


def memory_statistic(pairs: Pairs) -> Callable[[np.ndarray], float] | None:
    """The covariance over samples of what is left and of what was memorized, whatever its sign.

    A sample's memorization is what doing nothing leaves of it in all other pairs, with its mean over samples taken out:
    so a residue is found that follows memory, also where its average was pushed to 0. None where doing nothing has
    other halves.

    Doing nothing and deleting share the luck of one training, so memorization cannot be held fixed while halves are
    drawn again. It is built anew for each redraw instead: the luck of the models that deleted, in the new roles, plus
    what training added in the old ones. Where both share all luck, this is what doing nothing would have left with
    other halves, and the test is exact. Where they do not, it adds luck to the redraws alone: fewer false alarms.
    """
    nothing = pairs.nothing or pairs
    actual = pairs.halves.first
    if not np.array_equal(actual, nothing.halves.first[: pairs.count]):
        return None
    added = signs(actual) * (nothing.apart[: pairs.count] - pairs.apart)

    def covariance(first: np.ndarray) -> float:
        left = signs(first) * pairs.apart
        put = added + left
        of_others = put.sum(axis=0) - put
        return abs(float(((of_others - of_others.mean(axis=1, keepdims=True)) * left).mean()))

    return covariance


def shape(scores: Roles) -> float:
    """How differently two pairs' scores of a sample are spaced where deleted, and where never seen.

    The usual score of a sample need not be known for it, so few pairs suffice. Each pair meets the next one.
    """
    deleted, absent = (np.sort(np.abs(each - np.roll(each, 1, axis=0)), axis=None) for each in scores)
    spacings = np.concatenate([deleted, absent])
    below = np.searchsorted(deleted, spacings, "right") - np.searchsorted(absent, spacings, "right")
    return float(np.abs(below).max() / deleted.size)


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
