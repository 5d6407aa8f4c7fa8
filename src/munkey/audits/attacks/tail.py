"""Tail: residue in only a few samples, or of both signs, which a mean would hide."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from munkey.audits.attacks.residual_share import estimate_ratio
from munkey.audits.evidence import Pairs, Roles, average_other_fold, split_by_role
from munkey.audits.redraws import Statistics
from munkey.audits.registry import Estimate, Finding, NoFinding, audit
from munkey.audits.roc import TOLERANCE


@dataclass(frozen=True)
class Tail(Finding):
    """The distribution of residue over samples. Without residue, square and scatter are 1.

    Attributes
    ----------
    square
        The mean over samples of the squared mean difference, relative to its expected value by
        chance.
    tenth
        The contrast of the 10% of samples with the most residue.
    tenth_share
        That contrast as a percentage of doing nothing on the same samples.
    scatter
        The mean squared distance from a sample's usual score where deleted, divided by that where
        never seen.
    """

    square: float
    tenth: float
    tenth_share: Estimate
    scatter: float


@audit(
    "tail",
    title="Tail",
    needs="pairs",
    definition=(
        "squared mean differences; the tenth that keeps most; scatter; whether residue follows memory"
    ),
    source="ours",
)
def tail(pairs: Pairs, _: np.random.Generator | None = None) -> Tail | NoFinding:
    """Measure the tail of the residue. Returns NoFinding if there is a single pair.

    The 10% of samples with the most residue are selected with other pairs than those that measure
    their contrast, so that the selection does not inflate it.
    """
    if pairs.count < 2:
        return NoFinding(
            "a tail needs 2 pairs of models, since one selects the samples that the other measures"
        )
    first = pairs.halves.first
    nothing = pairs.nothing or pairs
    residue = compute_signs(first) * pairs.differences  # (P, n)
    memorization = compute_signs(first) * nothing.differences[: len(first)]
    tenth = find_largest_tenth(residue)
    tenth_contrasts = np.take_along_axis(residue, tenth, 1).mean(axis=1)
    nothing_contrasts = np.take_along_axis(memorization, tenth, 1).mean(axis=1)
    # By chance, a mean over P pairs has 1/P of the variance of a single difference.
    expected_square = (pairs.differences**2).mean() / len(first)
    if expected_square:
        square = float((residue.mean(axis=0) ** 2).mean() / expected_square)
    else:
        square = 1.0  # partners predict exactly the same, so there is no residue
    return Tail(
        square=square,
        tenth=float(tenth_contrasts.mean()),
        tenth_share=estimate_ratio(tenth_contrasts, nothing_contrasts, paired=True),
        scatter=float(np.exp(compute_log_scatter(compute_distances(pairs.scores, first)))),
    )


def make_statistics(pairs: Pairs) -> Statistics:
    """Make the function that maps halves to the test statistics.

    - `square` and `few` average the squares and the cubes of the samples' mean differences. Cubes
      give more weight to a few samples with much residue, and detect them with less residue than
      the contrast of the top 10% does.
    - `scatter` compares the mean squared distances from a sample's usual score in models that
      deleted it and in models that never saw it.
    - `level` compares the mean distances of the two halves within each model.
    - `shape` compares the distributions of the distances between two pairs' scores of a sample
      (Kolmogorov-Smirnov).
    - `memory` measures whether the residue depends on memorization. It is omitted if the models
      that deleted nothing have different halves.
    """
    memory = make_memory_statistic(pairs)

    def compute_statistics(first: np.ndarray) -> dict[str, float]:
        means = (compute_signs(first) * pairs.differences).mean(axis=0)
        distances = compute_distances(pairs.scores, first)
        deleted = distances.deleted
        absent = distances.absent
        # Model 2p deleted the samples in `first` and never saw the others; its partner did the
        # reverse.
        first_level = _average_half(deleted, first) - _average_half(absent, ~first)
        second_level = _average_half(deleted, ~first) - _average_half(absent, first)
        values = {
            "square": float((means**2).mean()),
            "few": float((means**3).mean()),
            "scatter": abs(compute_log_scatter(distances)),
            "level": float((first_level**2 + second_level**2).sum()),
            "shape": compute_shape(split_by_role(pairs.scores, first)),
        }
        if memory is not None:
            values["memory"] = memory(first)
        return values

    return compute_statistics


def make_memory_statistic(pairs: Pairs) -> Callable[[np.ndarray], float] | None:
    """Make the function that maps halves to the absolute covariance of residue and memorization.

    The memorization of a sample is its contrast for doing nothing in all other pairs, centered over
    samples. The statistic thus detects a residue that follows memorization even if a method has
    pushed its mean to 0. Returns None if the models that deleted nothing have different halves.

    The models before and after deletion share the randomness of one training run, so memorization
    cannot stay fixed while halves are redrawn. It is recomputed for each redraw: the differences
    after deletion in the new roles, plus what training added in the actual roles. If the models
    share all randomness, this is what doing nothing would have given with the redrawn halves, and
    the test is exact. Otherwise, it adds variance to the redraws only, so false alarms are rarer.
    """
    nothing = pairs.nothing or pairs
    actual = pairs.halves.first
    if not np.array_equal(actual, nothing.halves.first[: pairs.count]):
        return None
    added_by_training = compute_signs(actual) * (
        nothing.differences[: pairs.count] - pairs.differences
    )

    def compute_covariance(first: np.ndarray) -> float:
        residue = compute_signs(first) * pairs.differences
        memorization = added_by_training + residue
        sum_of_others = memorization.sum(axis=0) - memorization
        centered = sum_of_others - sum_of_others.mean(axis=1, keepdims=True)
        return abs(float((centered * residue).mean()))

    return compute_covariance


def compute_shape(scores: Roles) -> float:
    """Compute the Kolmogorov-Smirnov distance between two distributions of spacings.

    One is that of samples in models that deleted them, the other that of the same samples in models
    that never saw them, so both have as many spacings. A spacing is the distance between a sample's
    scores in two consecutive pairs. It does not need an estimate of the sample's usual score, so a
    few pairs are enough.
    """
    deleted = _sort_spacings(scores.deleted)
    absent = _sort_spacings(scores.absent)
    spacings = np.concatenate([deleted, absent])
    deleted_below = np.searchsorted(deleted, spacings, "right")
    absent_below = np.searchsorted(absent, spacings, "right")
    return float(np.abs(deleted_below - absent_below).max() / deleted.size)


def _sort_spacings(scores: np.ndarray) -> np.ndarray:
    """Return the sorted spacings (P * n,) of scores (P, n). The last pair precedes the first."""
    return np.sort(np.abs(scores - np.roll(scores, 1, axis=0)), axis=None)


def compute_signs(first: np.ndarray) -> np.ndarray:
    """Return 1 where model 2p deleted the sample, -1 where its partner did."""
    return np.where(first, 1.0, -1.0)


def find_largest_tenth(signed: np.ndarray) -> np.ndarray:
    """Return the indices of the 10% of samples with the largest means for each pair: (P, n // 10).

    The means of a pair are over the other fold (`average_other_fold`). There is at least one index.
    """
    size = max(signed.shape[1] // 10, 1)
    means = average_other_fold(signed)
    return np.argpartition(-means, size - 1, axis=1)[:, :size]


def compute_log_scatter(distances: Roles) -> float:
    """Return the logarithm of the ratio of mean squared distances, deleted over absent."""
    deleted = np.log((distances.deleted**2).mean() + TOLERANCE)
    absent = np.log((distances.absent**2).mean() + TOLERANCE)
    return float(deleted - absent)


def compute_distances(scores: np.ndarray, first: np.ndarray) -> Roles:
    """Return scores (S, n) by role, minus each sample's usual score.

    The usual score is the sample's mean over the models of other pairs that never saw it.
    """
    deleted, absent = split_by_role(scores, first)
    usual = (absent.sum(axis=0) - absent) / (len(first) - 1)
    return Roles(deleted - usual, absent - usual)


def _average_half(values: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Average values (P, n) over the samples of a half, (P, n) bool: (P,)."""
    return np.asarray((values * half).sum(axis=1) / half.sum(axis=1))
