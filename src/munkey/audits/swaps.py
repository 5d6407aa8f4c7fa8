"""The null by design: where nothing is left, partners could exchange what they deleted, and nobody could tell."""

from collections.abc import Callable
from itertools import product

import numpy as np

from munkey.audits.evidence import Pairs, Roles
from munkey.audits.roc import Attack, Ranking, Rates, redraw, with_intervals

LIMIT = 4096  # that many ways to swap are all tried, up to 12 pairs; of more, as many are drawn
Scores = Callable[[np.ndarray], Roles]


def swaps(pairs: int, generator: np.random.Generator, limit: int = LIMIT) -> np.ndarray:
    """(K, P) bool: which pairs are swapped, in all 2^P ways or in `limit` drawn ones. The first swaps none."""
    if 2**pairs <= limit:
        return np.array(list(product([False, True], repeat=pairs)))
    drawn = generator.random((limit, pairs)) < 0.5
    drawn[0] = False
    return np.asarray(drawn)


def null(statistic: Callable[[np.ndarray], float], first: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """(K,): the statistic of Halves.first under every swap, computed anew each time; the first is the observed one."""
    return np.array([statistic(first ^ flips[:, None]) for flips in swaps(len(first), generator)])


def p_value(statistics: np.ndarray) -> float:
    """Share of swaps with at least the observed statistic, which comes first; what rounding parts counts as equal."""
    return float(np.mean(statistics >= statistics[0] - 1e-9))


def attacked(scores: Scores, pairs: Pairs, generator: np.random.Generator) -> Attack:
    """An attack on every model of every pair, all scores pooled.

    scores: from Halves.first to scores (P, n), higher where a sample looks deleted; those of a pair must not depend on
    its own halves or margins but for the one that is scored. Intervals: bootstrap over pairs and examples, with scores
    as they are. p: two-sided in AUROC - 50; every swap computes all scores anew, as each pair is also a reference.
    """
    first = pairs.halves.first
    ranking = Ranking(*scores(first))

    def redrawn() -> Rates:
        weights = np.outer(*(redraw(size, generator) for size in first.shape))
        return ranking.rates(weights, weights)

    p = p_value(null(lambda each: abs(Ranking(*scores(each)).rates().auroc - 50), first, generator))
    return with_intervals(ranking.rates(), redrawn, first.size, p)
