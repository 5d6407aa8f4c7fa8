"""Strata: whether what is left depends on how much a sample was memorized. An average does not say."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from munkey.audits.attacks.residual_share import contrasts, differences_of, ratio
from munkey.audits.evidence import Pairs, of_other_fold
from munkey.audits.registry import Estimate, Finding, Refused, audit

Stratum: TypeAlias = Literal["low", "mid", "high", "top"]
STRATA: dict[Stratum, tuple[float, float]] = {  # from which to which share of the pool, least memorized first
    "low": (0, 1 / 3),
    "mid": (1 / 3, 2 / 3),
    "high": (2 / 3, 1),
    "top": (0.9, 1),
}


@dataclass(frozen=True)
class Strata(Finding):
    """By stratum. shares: left of what training put there, percent; put: the latter, in normal scores."""

    shares: Mapping[Stratum, Estimate]
    put: Mapping[Stratum, float]


@audit(
    "strata",
    title="Strata",
    needs="pairs",
    definition="the residual share of thirds of the pool, and of a tenth, by how much they were memorized",
    source="memorization after Feldman 2020; strata after Zhao et al. 2024 (RUM); from swapped halves: this project",
)
def strata(pairs: Pairs, _: np.random.Generator | None = None) -> Strata | Refused:
    """A pair's strata are chosen by other pairs, so that chance makes no trend. Needs two pairs.

    Memorization: the score with the sample less that without it, where nothing was done (Feldman 2020 counts hits).
    """
    reference = pairs.nothing or pairs
    if pairs.count < 2:
        return Refused("strata need 2 pairs of models: one sorts the samples that are looked at in the other")
    if not np.array_equal(pairs.halves.first, reference.halves.first[: pairs.count]):
        return Refused("strata need doing nothing with the same halves")
    first = pairs.halves.first
    before = differences_of(reference.scores, reference.halves.first)
    rank = ranks(of_other_fold(before))[: pairs.count]
    own, nothing = differences_of(pairs.scores, first), before[: pairs.count]
    shares, put = dict[Stratum, Estimate](), dict[Stratum, float]()
    for name, (low, high) in STRATA.items():
        chosen = (rank >= low) & (rank < high)
        if not ((first & chosen).any(axis=1) & (~first & chosen).any(axis=1)).all():
            return Refused("the pool is too small for strata")
        left, there = (contrasts(each, first, chosen) for each in (own, nothing))
        put[name] = float(there.mean())
        shares[name] = ratio(left, there, paired=True) if there.any() else Estimate(np.nan, -np.inf, np.inf)
    return Strata(shares, put)


def ranks(values: np.ndarray) -> np.ndarray:
    """(P, n): rank of a value in its row, from 0 to just below 1; ties keep their order."""
    return np.asarray(values.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable") / values.shape[1])
