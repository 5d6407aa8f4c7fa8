"""The power of an audit: how often simulated audits of its kind flag a known residue.

Verdicts quote it. `python -m benchmarks.gauntlet flags` writes the rows of power.csv. The simulated
audits differ in the size of their pool, their number of pairs, and how much was memorized, which
U-LiRA's AUROC before deletion measures.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

POWER = Path(__file__).with_name("power.csv")


@dataclass(frozen=True)
class Power:
    """Simulated audits of one kind.

    Attributes
    ----------
    pool
        The number of samples in the pool.
    auroc
        The mean AUROC of U-LiRA for doing nothing, percent.
    kept_whole
        How many of kept_whole_of audits flag a system that keeps 5 % of the samples whole.
    mean_subtracted
        How many of mean_subtracted_of audits flag a system that keeps 20 % of each memory, less
        the mean of that over the pool.
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
    """Read all simulated kinds of audits."""
    with POWER.open(newline="") as file:
        lines = list(csv.DictReader(file))
    kinds = []
    for line in lines:
        auroc = float(line.pop("auroc"))
        counts = {name: int(value) for name, value in line.items()}
        kinds.append(Power(auroc=auroc, **counts))
    return tuple(kinds)


def find_nearest_power(pool: int, pairs: int, auroc: float) -> Power | None:
    """Return the largest kind that is at most as large as an audit, and at most as much memorized.

    If less was memorized than in any kind of that size, the one with the least. None if no kind is
    small enough.
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
        The AUROC of U-LiRA before deletion, percent; None if there are too few pairs for it.
    """
    unknown = "what it finds of a few samples that are kept whole is not known"
    if auroc is None:
        return unknown
    row = find_nearest_power(pool, pairs, auroc)
    if row is None:
        return unknown
    kind = f"{row.pool} samples, {row.pairs} pairs, LiRA's AUROC {row.auroc:.0f} before deletion"
    limit = "" if row.auroc <= auroc else "at most "
    return (
        f"of 5 % of the samples kept whole, {limit}{row.kept_whole} of {row.kept_whole_of}"
        f" simulated audits ({kind})"
        " found something; of 20 % of each memory kept less its mean,"
        f" {limit}{row.mean_subtracted} of"
        f" {row.mean_subtracted_of}"
    )
