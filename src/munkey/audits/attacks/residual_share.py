"""Residual share, the headline: what is left of a deleted sample, in percent of what training on it had put there."""

from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Pairs, roles
from munkey.audits.margins import coarsened, normal_scores
from munkey.audits.redraws import Statistics
from munkey.audits.registry import Estimate, Finding, Refused, audit


@dataclass(frozen=True)
class Share(Finding):
    """contrasts: of each pair, in normal scores among test samples; contrast: their mean, positive if any is left.

    share: in percent of doing nothing, with its interval for this pool; unbounded where doing nothing cannot be told
    from 0. training: the same share with the interval for the training set that the pool was drawn from.
    chance: one sd of the share where nothing is left, percent. p_pairs: t over pairs, two-sided.
    unit: sd of margins of test samples, over that of doing nothing: how far the method moved what it does not count by.
    """

    contrast: float
    contrasts: tuple[float, ...]
    share: Estimate
    training: Estimate
    chance: float
    p_pairs: float
    unit: float


@audit(
    "residual-share",
    title="Residual share",
    needs="pairs",
    definition="difference of margins, deleted less never seen, in percent of that of doing nothing",
    source="this project; swapped halves after Hayes et al. 2024 and arXiv 2404.11577",
)
def residual_share(pairs: Pairs, _: np.random.Generator | None = None) -> Share | Refused:
    from scipy.stats import ttest_1samp

    if pairs.count < 2:
        return Refused("the residual share needs 2 pairs of models for its interval; there is 1")
    reference = pairs.nothing or pairs
    counts, size = reference.below, int(pairs.halves.test.sum())
    paired = np.array_equal(pairs.halves.deleted, reference.halves.deleted)
    if paired and reference is not pairs:
        counts = coarsened(counts, pairs.margins, pairs.halves.test)
    first, nothing_first = pairs.halves.first, reference.halves.first
    differences, before = (
        differences_of(pairs.scores, first),
        differences_of(normal_scores(counts, size), nothing_first),
    )
    own, nothing = contrasts(differences, first), contrasts(before, nothing_first)
    if not nothing.mean():
        return Refused("doing nothing leaves nothing: deleted samples are answered as those that were never seen")
    among = _among(differences, before) if paired else None
    alike = not own.any()  # partners answer alike to the bit, and there is no test
    sd = (margins[:, pairs.halves.test].std(axis=1, ddof=1).mean() for margins in (pairs.margins, reference.margins))
    return Share(
        contrast=float(own.mean()),
        contrasts=tuple(own.tolist()),
        share=ratio(own, nothing, paired),
        training=ratio(own, nothing, paired, among),
        chance=100 * chance_sd(pairs) / abs(float(nothing.mean())),
        p_pairs=1.0 if alike else float(ttest_1samp(own, 0).pvalue),
        unit=float(next(sd) / next(sd)),
    )


def _among(differences: np.ndarray, before: np.ndarray) -> np.ndarray:
    """(2, 2): covariance over samples of what is left of each, for means over the pool; chance is taken out."""
    both = np.stack([differences, before])  # (2, P, n)
    around = both - both.mean(axis=1, keepdims=True)
    pairs, size = both.shape[1:]
    chance = np.einsum("apn,bpn->ab", around, around) / ((pairs - 1) * pairs * size)
    values, vectors = np.linalg.eigh(np.cov(both.mean(axis=1)) - chance)
    return np.asarray((vectors * values.clip(0)) @ vectors.T / size)


def statistics(pairs: Pairs) -> Statistics:
    """What is tested: the mean contrast, whatever its sign, as a function of the halves."""
    return lambda first: {"share": abs(float(contrasts(differences_of(pairs.scores, first), first).mean()))}


def differences_of(scores: np.ndarray, first: np.ndarray) -> np.ndarray:
    """(P, n): score of the partner that deleted a sample less that of the other. A sample's difficulty cancels."""
    score = roles(scores, first)
    return np.asarray(score.deleted - score.absent)


def contrasts(differences: np.ndarray, first: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
    """(P,): mean of differences (P, n) over the pool. The two halves count alike, so that a partner's level cancels.

    chosen: (P, n) bool, the samples that count; all where it is None.
    """
    halves = (first, ~first) if chosen is None else (first & chosen, ~first & chosen)
    return np.asarray(sum((differences * half).sum(axis=1) / half.sum(axis=1) for half in halves) / 2)


def chance_sd(pairs: Pairs) -> float:
    """The sd of the mean contrast if the halves of every pair had been drawn again and nothing were left.

    Partners' margins of a sample then differ by luck alone, by v in variance, and the two halves are random samples of
    a and b of these differences: their means differ by v (1/a + 1/b). A contrast is half of that, and the mean over P
    pairs has 1/P² of the sum. v is taken within the halves, so that what is left does not count as luck.
    """
    apart = zip(pairs.apart, pairs.halves.first, strict=True)
    return float(np.sqrt(sum(_spread(each[half], each[~half]) for each, half in apart)) / (2 * pairs.count))


def _spread(*halves: np.ndarray) -> float:
    """The variance of the difference of two means."""
    return float(sum(half.var(ddof=1) / len(half) for half in halves))


def ratio(own: np.ndarray, nothing: np.ndarray, paired: bool, among: np.ndarray | None = None) -> Estimate:
    """mean(own) / mean(nothing) in percent, with Fieller's 95 % interval over pairs.

    It holds the values r for which a t test does not reject that own - r * nothing is 0 on average; so it counts the
    uncertainty of the denominator, exactly so for normal contrasts. Unbounded where doing nothing itself cannot be told
    from 0. paired: both are of the same pairs, in order; otherwise they are independent. among: (2, 2), the covariance
    of both means over samples, where these are a draw, too.
    """
    from scipy.stats import norm, t

    fewest = min(len(own), len(nothing))
    variances = np.diag([own.var(ddof=1) / len(own), nothing.var(ddof=1) / len(nothing)])
    if paired:
        variances = np.atleast_2d(np.cov(own, nothing)) / len(own)
    if among is not None:
        variances = variances + among * (norm.ppf(0.975) / t.ppf(0.975, fewest - 1)) ** 2  # of many samples
    means = np.array([own.mean(), nothing.mean()])
    (c, b), (_, a) = np.outer(means, means) - t.ppf(0.975, fewest - 1) ** 2 * variances
    value = 100 * means[0] / means[1]
    if a <= 0:
        return Estimate(float(value), -np.inf, np.inf)
    spread = np.sqrt(max(b**2 - a * c, 0))
    return Estimate(float(value), float(100 * (b - spread) / a), float(100 * (b + spread) / a))
