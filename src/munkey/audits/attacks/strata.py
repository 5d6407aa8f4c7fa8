"""Strata: does the residual share depend on how much a sample was memorized?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from munkey.audits.attacks.residual_share import (
    compute_contrasts,
    compute_differences,
    estimate_ratio,
)
from munkey.audits.evidence import Pairs, average_other_fold
from munkey.audits.registry import Estimate, Finding, NoFinding, audit

Stratum: TypeAlias = Literal["low", "mid", "high", "top"]
STRATA: dict[Stratum, tuple[float, float]] = {  # memorization ranks, as shares of the pool
    "low": (0, 1 / 3),
    "mid": (1 / 3, 2 / 3),
    "high": (2 / 3, 1),
    "top": (0.9, 1),
}


@dataclass(frozen=True)
class Strata(Finding):
    """Residual shares by stratum.

    Attributes
    ----------
    shares
        The residual share of each stratum, in percent.
    put
        What training put there: the mean contrast of doing nothing, in normal scores.
    """

    shares: Mapping[Stratum, Estimate]
    put: Mapping[Stratum, float]


@audit(
    "strata",
    title="Strata",
    needs="pairs",
    definition=(
        "the residual share of thirds of the pool, and of a tenth, by how much they were memorized"
    ),
    source="memorization: Feldman 2020; strata: Zhao et al. 2024 (RUM); swapped halves: ours",
)
def strata(pairs: Pairs, _: np.random.Generator | None = None) -> Strata | NoFinding:
    """Measure the residual share by how much samples were memorized.

    Memorization is the original's score of a sample if trained on it, minus its score if not
    (Feldman 2020, who uses accuracy instead of the score). Each pair's samples are ranked by their
    memorization in other pairs, so that chance alone causes no trend.

    Returns NoFinding if there is a single pair, if doing nothing has other halves, or if a half of
    the pool has no samples in a stratum.
    """
    reference = pairs.nothing or pairs
    if pairs.count < 2:
        return NoFinding(
            "strata need 2 pairs of models, since one sorts the samples that the other measures"
        )
    if not np.array_equal(pairs.halves.first, reference.halves.first[: pairs.count]):
        return NoFinding("strata need the original with the same halves")
    first = pairs.halves.first
    all_memorization = compute_differences(reference.scores, reference.halves.first)
    ranks = compute_ranks(average_other_fold(all_memorization))[: pairs.count]
    memorization = all_memorization[: pairs.count]
    residue = compute_differences(pairs.scores, first)
    shares: dict[Stratum, Estimate] = {}
    put: dict[Stratum, float] = {}
    for name, (low, high) in STRATA.items():
        is_in_stratum = (ranks >= low) & (ranks < high)
        has_first = (first & is_in_stratum).any(axis=1)
        has_second = (~first & is_in_stratum).any(axis=1)
        if not (has_first & has_second).all():
            return NoFinding("the pool is too small for strata")
        after = compute_contrasts(residue, first, is_in_stratum)
        nothing = compute_contrasts(memorization, first, is_in_stratum)
        put[name] = float(nothing.mean())
        if nothing.any():
            shares[name] = estimate_ratio(after, nothing, paired=True)
        else:  # training put nothing there, so the share is not defined
            shares[name] = Estimate(np.nan, -np.inf, np.inf)
    return Strata(shares, put)


def compute_ranks(values: np.ndarray) -> np.ndarray:
    """Rank values (P, n) within their row, from 0 to just below 1. Ties keep their order."""
    order = values.argsort(axis=1, kind="stable")
    return np.asarray(order.argsort(axis=1, kind="stable") / values.shape[1])
