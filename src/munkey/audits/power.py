"""The power of an audit: how often similar simulated audits flag a known residue.

Verdicts quote this power. `python -m benchmarks.gauntlet flags` writes power.csv. The simulated
audits differ in pool size, number of pairs, and memorization (U-LiRA's AUROC before deletion). Each
number in power.csv is the least over several kinds of simulated worlds, because the power depends
on how memory and luck are distributed, which nobody knows of a real model.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

POWER = Path(__file__).with_name("power.csv")


@dataclass(frozen=True)
class Power:
    """The power of simulated audits of one kind.

    Attributes
    ----------
    pool
        Number of samples in the pool.
    pairs
        Number of pairs of models.
    auroc
        U-LiRA's mean AUROC for doing nothing, in percent; the largest over the kinds of worlds.
    kept_whole
        How many of kept_whole_of audits flag a system that keeps 5% of the samples completely, in
        the kind of world where this is hardest.
    mean_subtracted
        How many of mean_subtracted_of audits flag a system that keeps 20% of the memory of each
        sample, minus the pool's mean, in the kind of world where this is hardest.
    """

    pool: int
    pairs: int
    auroc: float
    kept_whole: int
    kept_whole_of: int
    mean_subtracted: int
    mean_subtracted_of: int


@cache
def read_simulated_audits() -> tuple[Power, ...]:
    """Read the power of all simulated kinds of audits."""
    with POWER.open(newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = []
    for row in rows:
        auroc = float(row.pop("auroc"))
        counts = {name: int(value) for name, value in row.items()}
        kinds.append(Power(auroc=auroc, **counts))
    return tuple(kinds)


def find_nearest_power(pool: int, pairs: int, auroc: float) -> Power | None:
    """Find the simulated kind nearest to an audit, but no larger and with no more memorization.

    If all kinds of that size have more memorization, return the one with the least. Returns None if
    no kind is small enough.
    """
    smaller_kinds = []
    for kind in read_simulated_audits():
        if kind.pool <= pool and kind.pairs <= pairs:
            smaller_kinds.append(kind)
    if not smaller_kinds:
        return None
    largest_size = max((kind.pool, kind.pairs) for kind in smaller_kinds)
    kinds = [kind for kind in smaller_kinds if (kind.pool, kind.pairs) == largest_size]
    kinds.sort(key=lambda kind: kind.auroc)
    nearest = kinds[0]
    for kind in kinds:
        if kind.auroc <= auroc:
            nearest = kind
    return nearest


def describe_power(pool: int, pairs: int, auroc: float | None) -> str:
    """Describe the findings of simulated audits of this kind, as part of a sentence.

    Parameters
    ----------
    auroc
        U-LiRA's AUROC before deletion, in percent; None if there are too few pairs for it.
    """
    unknown = "what it finds of a few samples that are kept whole is not known"
    if auroc is None:
        return unknown
    power = find_nearest_power(pool, pairs, auroc)
    if power is None:
        return unknown
    kind = (
        f"{power.pool} samples, {power.pairs} pairs, LiRA's AUROC {power.auroc:.0f} before deletion,"
        " the hardest of several worlds"
    )
    limit = "" if power.auroc <= auroc else "at most "
    return (
        f"of 5% of the samples kept whole, {limit}{power.kept_whole} of {power.kept_whole_of}"
        f" simulated audits ({kind}) found something; of 20% of each memory kept less its mean,"
        f" {limit}{power.mean_subtracted} of {power.mean_subtracted_of}"
    )
