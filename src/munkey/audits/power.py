"""What an audit could have found: simulated audits of its kind, whose truth is known. Verdicts quote them.

`python -m benchmarks.gauntlet flags` writes the rows. In them, audits differ by the size of their pool, their number of
pairs, and how much was memorized, which U-LiRA's AUROC before deletion measures.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

POWER = Path(__file__).with_name("power.csv")


@dataclass(frozen=True)
class Power:
    """Simulated audits of one kind.

    pool: samples; auroc: U-LiRA's where nothing was done, percent, mean. kept_whole: how many audits of kept_whole_of
    flagged a system that keeps 5 % of the samples whole; mean_subtracted: one that keeps 20 % of each memory, less the
    mean of that over the pool.
    """

    pool: int
    pairs: int
    auroc: float
    kept_whole: int
    kept_whole_of: int
    mean_subtracted: int
    mean_subtracted_of: int


@cache
def simulated_audits() -> tuple[Power, ...]:
    """All kinds that were simulated."""
    with POWER.open(newline="") as file:
        lines = list(csv.DictReader(file))
    kinds = []
    for line in lines:
        numbers = {name: int(value) for name, value in line.items() if name != "auroc"}
        kinds.append(Power(auroc=float(line["auroc"]), **numbers))
    return tuple(kinds)


def nearest_power(pool: int, pairs: int, auroc: float) -> Power | None:
    """The kind that is nearest to an audit, and no easier: no larger, and with no more memorized.

    Where less was memorized than in any, the kind with the least. None where no kind is as small.
    """
    smaller = [row for row in simulated_audits() if row.pool <= pool and row.pairs <= pairs]
    if not smaller:
        return None
    size = max((row.pool, row.pairs) for row in smaller)
    alike = sorted((row for row in smaller if (row.pool, row.pairs) == size), key=lambda row: row.auroc)
    no_easier = [row for row in alike if row.auroc <= auroc]
    return no_easier[-1] if no_easier else alike[0]


def power_words(pool: int, pairs: int, auroc: float | None) -> str:
    """What simulated audits of an audit's kind found, as part of a sentence.

    auroc: U-LiRA's before deletion, percent; None where there are too few pairs for it.
    """
    row = None if auroc is None else nearest_power(pool, pairs, auroc)
    if row is None or auroc is None:
        return "what it finds of a few samples that are kept whole is not known"
    kind = f"{row.pool} samples, {row.pairs} pairs, LiRA's AUROC {row.auroc:.0f} before deletion"
    limit = "" if row.auroc <= auroc else "at most "
    return (
        f"of 5 % of the samples kept whole, {limit}{row.kept_whole} of {row.kept_whole_of} simulated audits ({kind})"
        f" found something; of 20 % of each memory kept less its mean, {limit}{row.mean_subtracted} of"
        f" {row.mean_subtracted_of}"
    )
