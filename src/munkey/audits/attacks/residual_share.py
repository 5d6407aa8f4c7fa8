"""Residual share: the contrast after deletion, as a percentage of the original's contrast."""

from dataclasses import dataclass

import numpy as np

from munkey.audits.evidence import Pairs, split_by_role
from munkey.audits.margins import coarsen, compute_normal_scores
from munkey.audits.redraws import Statistics
from munkey.audits.registry import Estimate, Finding, NoFinding, audit


@dataclass(frozen=True)
class Share(Finding):
    """The residual share of a method.

    Attributes
    ----------
    contrasts
        The contrast of each pair, in normal scores.
    contrast
        Their mean. It is positive if deleted samples score higher than samples never seen.
    share
        The mean as a percentage of the mean for doing nothing, with its interval for this pool. The
        interval is unbounded if the mean for doing nothing does not differ significantly from 0.
    training
        The same share, with an interval for the training set that the pool was drawn from.
    chance
        The standard deviation that the share would have without any residue, in percent.
    p_pairs
        The p-value of a two-sided t-test over pairs. The null hypothesis is a mean contrast of 0.
    unit
        The standard deviation of the test samples' margins, divided by that for doing nothing. It
        shows how much the method changed the scale of the margins.
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
    definition="margins if deleted minus margins if never seen, in percent of the original's",
    source="ours; swapped halves: Hayes et al. 2024, arXiv 2404.11577",
)
def residual_share(pairs: Pairs, _: np.random.Generator | None = None) -> Share | NoFinding:
    """Divide the mean contrast after deletion by that of doing nothing, with Fieller's interval.

    Returns NoFinding if there is a single pair, or if the mean contrast of doing nothing is 0.
    """
    from scipy.stats import ttest_1samp

    if pairs.count < 2:
        return NoFinding("the residual share needs 2 pairs of models for its interval; there is 1")
    reference = pairs.nothing or pairs
    test = pairs.halves.test
    first = pairs.halves.first
    reference_first = reference.halves.first
    # With the same halves, both contrasts come from the same training runs and share their
    # randomness.
    is_paired = np.array_equal(pairs.halves.deleted, reference.halves.deleted)
    reference_counts = reference.pool_counts
    if is_paired and reference is not pairs:
        reference_counts = coarsen(reference_counts, pairs.margins, test)
    reference_scores = compute_normal_scores(reference_counts, int(test.sum()))
    after_differences = compute_differences(pairs.scores, first)
    nothing_differences = compute_differences(reference_scores, reference_first)
    after = compute_contrasts(after_differences, first)
    nothing = compute_contrasts(nothing_differences, reference_first)
    if not nothing.mean():
        return NoFinding(
            "even without deletion, the pool's samples score the same as samples that were never"
            " seen"
        )
    over_samples = None
    if is_paired:
        over_samples = _estimate_covariance_over_samples(after_differences, nothing_differences)
    if after.any():
        p_pairs = float(ttest_1samp(after, 0).pvalue)
    else:
        p_pairs = 1.0  # partners predict exactly the same, so there is nothing to test
    after_sd = pairs.margins[:, test].std(axis=1, ddof=1).mean()
    nothing_sd = reference.margins[:, test].std(axis=1, ddof=1).mean()
    return Share(
        contrast=float(after.mean()),
        contrasts=tuple(after.tolist()),
        share=estimate_ratio(after, nothing, is_paired),
        training=estimate_ratio(after, nothing, is_paired, over_samples),
        chance=100 * estimate_chance_sd(pairs) / abs(float(nothing.mean())),
        p_pairs=p_pairs,
        unit=float(after_sd / nothing_sd),
    )


def _estimate_covariance_over_samples(after: np.ndarray, nothing: np.ndarray) -> np.ndarray:
    """Estimate the covariance (2, 2) of the two means that is due to drawing the pool at random.

    Each sample's mean over the P pairs also varies because training is random. That part of the
    covariance is estimated from the variance over pairs and subtracted.

    Parameters
    ----------
    after, nothing
        The differences (P, n) after deletion and after doing nothing.
    """
    differences = np.stack([after, nothing])  # (2, P, n)
    pairs, size = differences.shape[1:]
    residuals = differences - differences.mean(axis=1, keepdims=True)
    from_training = np.einsum("apn,bpn->ab", residuals, residuals) / ((pairs - 1) * pairs * size)
    covariance = np.cov(differences.mean(axis=1)) - from_training
    # The difference may have a negative eigenvalue. No covariance has one, so replace it by 0.
    values, vectors = np.linalg.eigh(covariance)
    positive_part = (vectors * values.clip(0)) @ vectors.T
    return np.asarray(positive_part / size)


def make_statistics(pairs: Pairs) -> Statistics:
    """Make the function that maps halves to the test statistic, the absolute mean contrast."""

    def compute_statistics(first: np.ndarray) -> dict[str, float]:
        differences = compute_differences(pairs.scores, first)
        contrast = compute_contrasts(differences, first).mean()
        return {"share": abs(float(contrast))}

    return compute_statistics


def compute_differences(scores: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return each sample's score where it was deleted minus its score where never seen: (P, n).

    The difficulty of a sample cancels in the difference.
    """
    by_role = split_by_role(scores, first)
    return np.asarray(by_role.deleted - by_role.absent)


def compute_contrasts(
    differences: np.ndarray,
    first: np.ndarray,
    selected: np.ndarray | None = None,
) -> np.ndarray:
    """Return each pair's contrast (P,), the average of its differences (P, n) over the pool.

    Both halves have the same weight, so a constant difference between the partners cancels.

    Parameters
    ----------
    selected
        The samples to average over, (P, n) bool; by default, all.
    """
    in_first = first
    in_second = ~first
    if selected is not None:
        in_first = in_first & selected
        in_second = in_second & selected
    mean_first = (differences * in_first).sum(axis=1) / in_first.sum(axis=1)
    mean_second = (differences * in_second).sum(axis=1) / in_second.sum(axis=1)
    return np.asarray((mean_first + mean_second) / 2)


def estimate_chance_sd(pairs: Pairs) -> float:
    """Estimate the standard deviation of the mean contrast over random halves, without any residue.

    Without residue, partners' scores of a sample differ only by chance, with a variance v, and the
    halves are random samples of a and b of these differences. The difference of the halves' means
    has the variance v (1/a + 1/b). A contrast is half of that difference, and the mean over P pairs
    has 1/P² of their summed variances. v is estimated within halves, so that a residue does not
    count as chance.
    """
    variance = 0.0
    for differences, is_first in zip(pairs.differences, pairs.halves.first, strict=True):
        for half in (differences[is_first], differences[~is_first]):
            variance += float(half.var(ddof=1) / len(half))
    return float(np.sqrt(variance) / (2 * pairs.count))


def estimate_ratio(
    after: np.ndarray,
    nothing: np.ndarray,
    paired: bool,
    over_samples: np.ndarray | None = None,
) -> Estimate:
    """Return mean(after) / mean(nothing) in percent, with a 95% interval over pairs (Fieller 1954).

    The interval contains every r for which a t-test does not reject that after - r * nothing is 0 on
    average. It thus accounts for the uncertainty of the denominator, and is exact if contrasts are
    normally distributed. It is unbounded if the mean of `nothing` does not differ significantly
    from 0.

    Parameters
    ----------
    after, nothing
        The contrasts of each pair after deletion and for doing nothing, one-dimensional.
    paired
        Whether both have the same pairs in the same order. Otherwise, they are independent.
    over_samples
        An additional covariance (2, 2) of the two means.
    """
    from scipy.stats import norm, t

    t_quantile = t.ppf(0.975, min(len(after), len(nothing)) - 1)
    if paired:
        covariance = np.atleast_2d(np.cov(after, nothing)) / len(after)
    else:
        covariance = np.diag([after.var(ddof=1) / len(after), nothing.var(ddof=1) / len(nothing)])
    if over_samples is not None:
        # There are many samples, so their part gets a normal quantile instead of a t quantile.
        covariance = covariance + over_samples * (norm.ppf(0.975) / t_quantile) ** 2
    means = np.array([after.mean(), nothing.mean()])
    value = float(100 * means[0] / means[1])
    # (mean_after - r mean_nothing)^2 <= t^2 variance(after - r nothing) is a r^2 - 2 b r + c <= 0 in r.
    (c, b), (_, a) = np.outer(means, means) - t_quantile**2 * covariance
    if a <= 0:
        return Estimate(value, -np.inf, np.inf)
    root = np.sqrt(max(b**2 - a * c, 0))
    return Estimate(value, float(100 * (b - root) / a), float(100 * (b + root) / a))
