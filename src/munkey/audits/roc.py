"""AUROC and true-positive rates of attacks, with bootstrap intervals."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Pairs, Roles
from munkey.audits.redraws import Statistics
from munkey.audits.registry import Estimate, Finding, NoFinding

TOLERANCE = 1e-5  # scores are rounded to multiples of this, so rounding differences are ties
DRAWS = 500  # bootstrap samples
# Maps Halves.first to scores (P, n) by role, higher where a sample looks deleted.
Scores = Callable[[np.ndarray], Roles]


@dataclass(frozen=True)
class Rates:
    """AUROC, and true-positive rates at false-positive rates of 1% and 5%, all in percent."""

    auroc: float
    tpr_1: float
    tpr_5: float


class Ranking:
    """The ranks of positives and negatives, from which rates are computed with any weights.

    Raises ValueError if a score is not finite.
    """

    def __init__(self, positives: np.ndarray, negatives: np.ndarray) -> None:
        scores = np.concatenate([positives.ravel(), negatives.ravel()])
        if not np.isfinite(scores).all():
            raise ValueError("scores are not finite")
        levels, ranks = np.unique(np.round(scores / TOLERANCE), return_inverse=True)
        self._rank_count = len(levels)
        self._positives = ranks[: positives.size]
        self._negatives = ranks[positives.size :]

    def compute_rates(
        self, positives: np.ndarray | None = None, negatives: np.ndarray | None = None
    ) -> Rates:
        """Compute AUROC and true-positive rates.

        Parameters
        ----------
        positives, negatives
            The weights of the samples, in the shape of their scores; by default, all are 1.
        """
        positive_shares = self._compute_shares(self._positives, positives)
        negative_shares = self._compute_shares(self._negatives, negatives)
        # Rates if all samples at this rank or higher are classified as positive.
        true_positives = np.cumsum(positive_shares)
        false_positives = np.cumsum(negative_shares)
        # The chance that a positive ranks above a negative; ties count half.
        wins = positive_shares * (1 - false_positives + negative_shares / 2)
        # 1e-9 allows for rounding errors of the sums.
        is_within_1 = false_positives <= 0.01 + 1e-9
        is_within_5 = false_positives <= 0.05 + 1e-9
        return Rates(
            auroc=100 * float(wins.sum()),
            tpr_1=float(100 * true_positives[is_within_1].max(initial=0)),
            tpr_5=float(100 * true_positives[is_within_5].max(initial=0)),
        )

    def _compute_shares(self, ranks: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Return the share of the weight at each rank, highest rank first."""
        flat_weights = None if weights is None else weights.ravel()
        counts = np.bincount(ranks, flat_weights, minlength=self._rank_count)
        return np.asarray(counts / counts.sum())[::-1]


@dataclass(frozen=True)
class Attack(Finding):
    """How well an attack separates deleted samples from others, in percent."""

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
        A function that draws a bootstrap sample and returns its rates.
    negatives
        The number of negatives.
    draws
        The number of bootstrap samples.
    """
    bootstrap = [redraw_rates() for _ in range(draws)]

    def estimate(name: str) -> Estimate:
        values = [getattr(sample, name) for sample in bootstrap]
        low, high = np.percentile(values, [2.5, 97.5])
        return Estimate(getattr(rates, name), float(low), float(high))

    def estimate_tpr(name: str, percent: int) -> Estimate | NoFinding:
        """Estimate the true-positive rate at a false-positive rate of `percent`.

        With fewer than 100 / percent negatives, a single false positive already exceeds this rate.
        """
        needed = math.ceil(100 / percent)
        if negatives < needed:
            return NoFinding(
                f"{percent}% of {negatives} negatives is less than one: {needed} are needed"
            )
        return estimate(name)

    return Attack(
        auroc=estimate("auroc"), tpr_1=estimate_tpr("tpr_1", 1), tpr_5=estimate_tpr("tpr_5", 5)
    )


def redraw(size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw a bootstrap sample, and return how often it contains each of `size` items."""
    return np.bincount(generator.integers(size, size=size), minlength=size)


def attack_pairs(scores: Scores, pairs: Pairs, generator: np.random.Generator) -> Attack:
    """Attack all pairs, and return the rates with a bootstrap over pairs and samples.

    The score of a sample must not depend on the pair's other margins or on the pair's halves.
    """
    first = pairs.halves.first
    ranking = Ranking(*scores(first))

    def redraw_rates() -> Rates:
        pair_weights = redraw(first.shape[0], generator)
        sample_weights = redraw(first.shape[1], generator)
        weights = np.outer(pair_weights, sample_weights)
        return ranking.compute_rates(weights, weights)

    return bootstrap_intervals(ranking.compute_rates(), redraw_rates, first.size)


def make_rate_statistics(name: str, scores: Scores, pairs: Pairs) -> Statistics:
    """Make the function that maps halves to an attack's test statistics.

    The statistics are |AUROC - 0.5| and, with at least 100 negatives, the true-positive rate at 1%.
    """

    def compute_statistics(first: np.ndarray) -> dict[str, float]:
        sample_scores = scores(first)
        positives = np.sort(np.round(sample_scores.deleted.ravel() / TOLERANCE))
        negatives = np.sort(np.round(sample_scores.absent.ravel() / TOLERANCE))
        lower = np.searchsorted(negatives, positives, "left").mean()
        not_higher = np.searchsorted(negatives, positives, "right").mean()
        wins = (lower + not_higher) / 2  # ties count half
        values = {f"{name}_auroc": abs(wins / len(negatives) - 0.5)}
        if len(negatives) >= 100:
            # At most 1% of the negatives are above this threshold.
            threshold = negatives[-1 - len(negatives) // 100]
            values[f"{name}_tpr_1"] = float(np.mean(positives > threshold))
        return values

    return compute_statistics
