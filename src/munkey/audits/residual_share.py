"""Residual share, the headline: what is left of a deleted sample, in percent of what training on it had put there."""

from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Pairs, roles
from munkey.audits.registry import Estimate, Finding, Refused, audit


@dataclass(frozen=True)
class Share(Finding):
    """contrasts: of each pair, in sd of the margins of test samples; contrast: their mean, positive if any is left.

    share: in percent of doing nothing, with its interval; infinite bounds where doing nothing cannot be told from 0.
    sham: one sd of a sham's share, percent. p_sham: against sham pools; p_pairs: t over pairs. Both are two-sided.
    """

    contrast: float
    contrasts: tuple[float, ...]
    share: Estimate
    sham: float
    p_sham: float
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
    sd, contrast = sham_sd(pairs), float(own.mean())
    paired = np.array_equal(pairs.halves.deleted, reference.halves.deleted)
    return Share(
        contrast=contrast,
        contrasts=tuple(own.tolist()),
        share=ratio(own, nothing, paired),
        sham=100 * sd / abs(float(nothing.mean())),
        p_sham=float(2 * norm.sf(abs(contrast) / sd)),
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


def sham_sd(pairs: Pairs) -> float:
    """The sd of the mean contrast over all sham pools: test samples, with random halves as large as the pool's.

    Nobody needs to draw them. Two disjoint random sets of a and b out of samples with variance v differ in their means
    by v (1/a + 1/b); a contrast is half a difference, and the mean over P pairs has 1/P² of the sum.
    """
    one, other = np.split(pairs.standardized()[:, pairs.halves.test].reshape(pairs.count, 2, -1), 2, axis=1)
    variances = (one - other).var(axis=2, ddof=1)[:, 0]
    first = pairs.halves.first
    if not (variances > 0).all():
        raise ValueError("partners answer every test sample alike: are they one model, handed over twice?")
    sizes = 1 / first.sum(axis=1) + 1 / (~first).sum(axis=1)
    return float(np.sqrt((variances * sizes).sum()) / (2 * pairs.count))


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
