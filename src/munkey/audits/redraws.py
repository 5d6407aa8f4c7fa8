"""The null by design: where nothing is left, other halves could have been deleted, and nobody could tell."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Statistics = Callable[[np.ndarray], Mapping[str, float]]


@dataclass(frozen=True)
class Significance:
    """p: of one statistic, corrected for all that were tested with it; least: the smallest that was possible."""

    p: float
    least: float


def corrected(
    statistics: Statistics, first: np.ndarray, generator: np.random.Generator, redraws: int
) -> dict[str, Significance]:
    """Tests statistics of Halves.first together: each is larger the more is left, and computed anew for every redraw.

    A redraw cuts the pool of each pair at random, as it was cut before anything was trained. A statistic's p is the
    share of redraws, the halves as they are among them, in which it is at least as large; its corrected p is the share
    in which any statistic's p is at least as small (Westfall and Young 1993, min p). So it is exact, for few pairs too.
    """
    drawn = [statistics(first), *(statistics(generator.permuted(first, axis=1)) for _ in range(redraws))]
    values = np.array([[*each.values()] for each in drawn])
    slack = 1e-9 * np.abs(values).max(axis=0)  # what rounding parts counts as equal
    p = 1 - np.stack([np.searchsorted(np.sort(each), each - slack[j]) for j, each in enumerate(values.T)], 1) / len(
        values
    )
    smallest = np.sort(p.min(axis=1))

    def joint(own: float) -> float:
        return float(np.searchsorted(smallest, own + 1e-9) / len(values))

    return {name: Significance(joint(each[0]), joint(each.min())) for name, each in zip(drawn[0], p.T, strict=True)}
