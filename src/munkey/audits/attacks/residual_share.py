"""Residual share, the headline: what is left of a deleted sample, in percent of what training on it had put there."""

from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Pairs, roles
from munkey.audits.registry import Estimate, Finding, Refused, audit


@dataclass(frozen=True)
class Share(Finding):
    """contrasts: of each pair, in sd of the margins of test samples; contrast: their mean, positive if any is left.

    share: in percent of doing nothing, with its interval; infinite bounds where doing nothing cannot be told from 0.
    chance: one sd of the share where nothing is left, percent. p_chance: against that; p_pairs: t over pairs. Both are
    two-sided.
    """

    contrast: float
    contrasts: tuple[float, ...]
    share: Estimate
    chance: float
    p_chance: float
    p_pairs: float


@audit(
    "residual-share",
    title="Residual share",
    needs="pairs",
    definition="difference of margins, deleted less never seen, in percent of that of doing nothing",
    source="this project; swapped halves after Hayes et al. 2024 and arXiv 2404.11577",
)
def residual_share(pairs: Pairs, _: np.random.Generator | None = None) -> Share | Refused:
    from scipy.stats import norm, ttest_1samp

    if pairs.count < 2:
        return Refused("the residual share needs 2 pairs of models for its interval; there is 1")
    reference = pairs.nothing or pairs
    own, nothing = contrasts(pairs), contrasts(reference)
    sd, contrast = chance_sd(pairs), float(own.mean())
    paired = np.array_equal(pairs.halves.deleted, reference.halves.deleted)
    return Share(
        contrast=contrast,
        contrasts=tuple(own.tolist()),
        share=ratio(own, nothing, paired),
        chance=100 * sd / abs(float(nothing.mean())),
        p_chance=float(2 * norm.sf(abs(contrast) / sd)),
        p_pairs=float(ttest_1samp(own, 0).pvalue),
    )


def contrasts(pairs: Pairs) -> np.ndarray:
    """(P,): margin of the partner that deleted a sample less that of the other, mean over the pool, in sd of test.

    A sample's difficulty is in both margins and cancels; the two halves count alike, so a partner's level cancels too.
    """
    first = pairs.halves.first
    margin = roles(pairs.standardized()[:, pairs.halves.pool], first)
    difference = margin.deleted - margin.absent
    return np.array(
        [(each[half].mean() + each[~half].mean()) / 2 for each, half in zip(difference, first, strict=True)]
    )


def chance_sd(pairs: Pairs) -> float:
    """The sd of the mean contrast if the halves of every pair had been drawn again and nothing were left.

    Partners' margins of a sample then differ by luck alone, by v in variance, and the two halves are random samples of
    a and b of these differences: their means differ by v (1/a + 1/b). A contrast is half of that, and the mean over P
    pairs has 1/P² of the sum. v is taken within the halves, so that what is left does not count as luck.
    """
    first, margin = pairs.halves.first, pairs.standardized()[:, pairs.halves.pool]
    differences = margin[::2] - margin[1::2]
    variances = np.array([_spread(each[half], each[~half]) for each, half in zip(differences, first, strict=True)])
    if not (variances > 0).all():
        raise ValueError("partners answer every sample of the pool alike: are they one model, handed over twice?")
    return float(np.sqrt(variances.sum()) / (2 * pairs.count))


def _spread(*halves: np.ndarray) -> float:
    """The variance of the difference of two means."""
    return float(sum(half.var(ddof=1) / len(half) for half in halves))


def ratio(own: np.ndarray, nothing: np.ndarray, paired: bool) -> Estimate:
    """mean(own) / mean(nothing) in percent, with Fieller's 95 % interval over pairs.

    It holds the values r for which a t test does not reject that own - r * nothing is 0 on average; so it counts the
    uncertainty of the denominator, exactly so for normal contrasts. paired: both are of the same pairs, in order;
    otherwise they are independent. Unbounded where doing nothing itself cannot be told from 0.
    """
    from scipy.stats import t

    fewest = min(len(own), len(nothing))
    variances = np.diag([own.var(ddof=1) / len(own), nothing.var(ddof=1) / len(nothing)])
    if paired:
        variances = np.atleast_2d(np.cov(own, nothing)) / len(own)
    means = np.array([own.mean(), nothing.mean()])
    (c, b), (_, a) = np.outer(means, means) - t.ppf(0.975, fewest - 1) ** 2 * variances
    value = 100 * means[0] / means[1]
    if a <= 0:
        return Estimate(float(value), -np.inf, np.inf)
    spread = np.sqrt(max(b**2 - a * c, 0))
    return Estimate(float(value), float(100 * (b - spread) / a), float(100 * (b + spread) / a))
