"""AUROC and true-positive rates of attacks, with bootstrap intervals."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Pairs, Roles
from munkey.audits.redraws import Statistics
from munkey.audits.registry import Estimate, Finding, NoFinding

TOLERANCE = 1e-5  # scores are rounded to multiples of it: a difference by rounding alone is a tie
DRAWS = 500  # bootstrap samples
# of Halves.first: (P, n) each, higher where a sample looks deleted
Scores = Callable[[np.ndarray], Roles]


@dataclass(frozen=True)
class Rates:
    """AUROC, and true-positive rates at 1 and 5 % of false positives; percent."""

    auroc: float
    tpr_1: float
    tpr_5: float


class Ranking:
    """Ranks of positives and negatives, from which rates are computed with different weights."""

    def __init__(self, positives: np.ndarray, negatives: np.ndarray) -> None:
        both = np.concatenate([positives.ravel(), negatives.ravel()])
        if not np.isfinite(both).all():
            raise ValueError("scores are not finite")
        levels, ranks = np.unique(np.round(both / TOLERANCE), return_inverse=True)
        self._rank_count = len(levels)
        self._positives = ranks[: positives.size]
        self._negatives = ranks[positives.size :]

    def rates(
        self, positives: np.ndarray | None = None, negatives: np.ndarray | None = None
    ) -> Rates:
        """Return the rates.

        Parameters
        ----------
        positives, negatives
            Weights in the shape of the scores; None: all 1.
        """
        # Shares of the weight at each rank, the highest first.
        positive_shares = self._shares(self._positives, positives)
        negative_shares = self._shares(self._negatives, negatives)
        true_positives = np.cumsum(positive_shares)
        false_positives = np.cumsum(negative_shares)
        # The chance that a positive ranks above a negative; ties count half.
        wins = positive_shares * (1 - false_positives + negative_shares / 2)
        is_within_1 = false_positives <= 0.01 + 1e-9
        is_within_5 = false_positives <= 0.05 + 1e-9
        return Rates(
            auroc=100 * float(wins.sum()),
            tpr_1=float(100 * true_positives[is_within_1].max(initial=0)),
            tpr_5=float(100 * true_positives[is_within_5].max(initial=0)),
        )

    def _shares(self, ranks: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        flat_weights = None if weights is None else weights.ravel()
        counts = np.bincount(ranks, flat_weights, minlength=self._rank_count)
        return np.asarray(counts / counts.sum())[::-1]


@dataclass(frozen=True)
class Attack(Finding):
    """How well an attack tells deleted samples from others; percent."""

    auroc: Estimate
    tpr_1: Estimate | NoFinding
    tpr_5: Estimate | NoFinding


def bootstrap_intervals(
    rates: Rates,
    redraw_rates: Callable[[], Rates],
    negatives: int,
    draws: int = DRAWS,
) -> Attack:
    """Return the rates with percentile bootstrap intervals.

    Parameters
    ----------
    redraw_rates
        The rates of one bootstrap sample.
    negatives
        Their number; a rate at x % of false positives needs at least 100 / x of them.
    """
    bootstrap = [redraw_rates() for _ in range(draws)]

    def estimate(name: str) -> Estimate:
        low, high = np.percentile([getattr(sample, name) for sample in bootstrap], [2.5, 97.5])
        return Estimate(getattr(rates, name), float(low), float(high))

    def rate(name: str, percent: int) -> Estimate | NoFinding:
        if negatives * percent < 100:
            return NoFinding(
                f"{percent} % of {negatives} negatives is less than one:"
                f" {100 // percent} are needed"
            )
        return estimate(name)

    return Attack(estimate("auroc"), rate("tpr_1", 1), rate("tpr_5", 5))


def redraw(size: int, generator: np.random.Generator) -> np.ndarray:
    """Return how often each of `size` items is in a bootstrap sample."""
    return np.bincount(generator.integers(size, size=size), minlength=size)


def attack_rates(scores: Scores, pairs: Pairs, generator: np.random.Generator) -> Attack:
    """Return the rates of an attack over all pairs, with a bootstrap over pairs and samples.

    The score of a sample may depend on no other margin of its own pair, nor on the pair's halves.
    """
    first = pairs.halves.first
    ranking = Ranking(*scores(first))

    def redraw_rates() -> Rates:
        pair_weights = redraw(first.shape[0], generator)
        sample_weights = redraw(first.shape[1], generator)
        weights = np.outer(pair_weights, sample_weights)
        return ranking.rates(weights, weights)

    return bootstrap_intervals(ranking.rates(), redraw_rates, first.size)


def rate_tests(name: str, scores: Scores, pairs: Pairs) -> Statistics:
    """Test statistics of an attack: distance of its AUROC from 50, and TPR at 1 % if it has one."""

    def statistics(first: np.ndarray) -> dict[str, float]:
        sample_scores = scores(first)
        positives = np.sort(np.round(sample_scores.deleted.ravel() / TOLERANCE))
        negatives = np.sort(np.round(sample_scores.absent.ravel() / TOLERANCE))
        lower = np.searchsorted(negatives, positives, "left").mean()
        not_higher = np.searchsorted(negatives, positives, "right").mean()
        wins = (lower + not_higher) / 2  # ties count half
        values = {f"{name}_auroc": abs(wins / len(negatives) - 0.5)}
        if len(negatives) >= 100:
            threshold = negatives[-1 - len(negatives) // 100]
            values[f"{name}_tpr_1"] = float(np.mean(positives > threshold))
        return values

    return statistics
