"""AUROC and true-positive rates from ranked scores; scores that differ by rounding alone tie."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Pairs, Roles
from munkey.audits.redraws import Statistics
from munkey.audits.registry import Estimate, Finding, Refused

TOLERANCE = 1e-5  # scores are rounded to multiples of it before they are ranked
DRAWS = 500  # of a bootstrap
Scores = Callable[[np.ndarray], Roles]  # of Halves.first: (P, n) each, higher where a sample looks deleted


@dataclass(frozen=True)
class Rates:
    """In percent: AUROC, and the largest true-positive rate with at most 1 and 5 % of false positives."""

    auroc: float
    tpr_1: float
    tpr_5: float


class Ranking:
    """Scores of positives and negatives, ranked once and counted as often as asked."""

    def __init__(self, positives: np.ndarray, negatives: np.ndarray) -> None:
        both = np.concatenate([positives.ravel(), negatives.ravel()])
        if not np.isfinite(both).all():
            raise ValueError("scores are not finite")
        levels, ranks = np.unique(np.round(both / TOLERANCE), return_inverse=True)
        self._levels = len(levels)
        self._positives, self._negatives = np.split(ranks, [positives.size])

    def rates(self, positives: np.ndarray | None = None, negatives: np.ndarray | None = None) -> Rates:
        """positives, negatives: how often each score counts, in the shapes of the scores; None: once."""
        true, false = self._counted(self._positives, positives), self._counted(self._negatives, negatives)
        wins = true[::-1] * (1 - np.cumsum(false[::-1]) + false[::-1] / 2)
        reached, alarms = np.cumsum(true[::-1]), np.cumsum(false[::-1])
        at = [100 * reached[alarms <= limit + 1e-9].max(initial=0) for limit in (0.01, 0.05)]
        return Rates(100 * float(wins.sum()), float(at[0]), float(at[1]))

    def _counted(self, ranks: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Share of the weight at each rank, the lowest first."""
        counts = np.bincount(ranks, None if weights is None else weights.ravel(), minlength=self._levels)
        return np.asarray(counts / counts.sum())


@dataclass(frozen=True)
class Attack(Finding):
    """How well an attack tells deleted samples from others, percent."""

    auroc: Estimate
    tpr_1: Estimate | Refused
    tpr_5: Estimate | Refused


def with_intervals(rates: Rates, redrawn: Callable[[], Rates], negatives: int, draws: int = DRAWS) -> Attack:
    """The rates with percentile intervals of `draws` bootstrap draws.

    negatives: their number; a rate at x % false positives is refused where there are fewer than 1 / x %.
    """
    drawn = [redrawn() for _ in range(draws)]

    def estimate(name: str) -> Estimate:
        low, high = np.percentile([getattr(each, name) for each in drawn], [2.5, 97.5])
        return Estimate(getattr(rates, name), float(low), float(high))

    def rate(name: str, percent: int) -> Estimate | Refused:
        if negatives * percent < 100:
            return Refused(f"{percent} % of {negatives} negatives is less than one: {100 // percent} are needed")
        return estimate(name)

    return Attack(estimate("auroc"), rate("tpr_1", 1), rate("tpr_5", 5))


def redraw(size: int, generator: np.random.Generator) -> np.ndarray:
    """How often each of `size` things is drawn in a bootstrap sample of them."""
    return np.bincount(generator.integers(size, size=size), minlength=size)


def attacked(scores: Scores, pairs: Pairs, generator: np.random.Generator) -> Attack:
    """An attack on every model of every pair, all scores pooled; intervals: bootstrap over pairs and samples.

    The scores of a pair must not depend on its own halves or margins but for the one that is scored.
    """
    first = pairs.halves.first
    ranking = Ranking(*scores(first))

    def redrawn() -> Rates:
        weights = np.outer(*(redraw(size, generator) for size in first.shape))
        return ranking.rates(weights, weights)

    return with_intervals(ranking.rates(), redrawn, first.size)


def rate_tests(name: str, scores: Scores, pairs: Pairs) -> Statistics:
    """What is tested of an attack: how far its AUROC is from 50, and its TPR at 1 % where negatives are enough."""

    def statistics(first: np.ndarray) -> dict[str, float]:
        positives, negatives = (np.sort(np.round(part.ravel() / TOLERANCE)) for part in scores(first))
        wins = sum(np.searchsorted(negatives, positives, side).mean() for side in ("left", "right")) / 2
        found = {f"{name}_auroc": abs(wins / len(negatives) - 0.5)}
        if len(negatives) >= 100:
            bar = negatives[-1 - len(negatives) // 100]
            found[f"{name}_tpr_1"] = float(np.mean(positives > bar))
        return found

    return statistics
