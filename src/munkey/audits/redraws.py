"""Randomization tests, which compare the actual halves of a pool with halves that are redrawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Statistics = Callable[[np.ndarray], Mapping[str, float]]


@dataclass(frozen=True)
class Significance:
    """The result of a test.

    Attributes
    ----------
    p
        The p-value, corrected for all statistics that were tested together.
    min_p
        The smallest corrected p-value that any of the splits could have had.
    """

    p: float
    min_p: float


def run_permutation_tests(
    statistics: Statistics, first: np.ndarray, generator: np.random.Generator, redraws: int
) -> dict[str, Significance]:
    """Test together whether several statistics of the actual halves are larger than by chance.

    A redraw splits each pair's pool at random, as was done before training. Without residue, the
    actual split is just one of these splits. The p-value of a statistic is the share of all splits,
    including the actual one, in which it is at least as large as in the actual split. Its corrected
    p-value is the share of splits in which the smallest p-value of all statistics is at most as
    large (Westfall and Young 1993, min p). This is exact even with few pairs.

    Parameters
    ----------
    statistics
        A function from halves to statistics. Each statistic must grow with the residue.
    first
        The actual halves, as in `Halves.first`.
    redraws
        The number of redraws.
    """
    actual = statistics(first)
    values = [list(actual.values())]
    for _ in range(redraws):
        redrawn = statistics(generator.permuted(first, axis=1))
        values.append(list(redrawn.values()))
    split_count = len(values)

    p_values = []  # for each statistic, the p-value (split_count,) of each split
    for column in np.array(values).T:
        slack = 1e-9 * np.abs(column).max()  # values that differ only by rounding errors are equal
        smaller = np.searchsorted(np.sort(column), column - slack)
        p_values.append(1 - smaller / split_count)
    smallest = np.sort(np.min(p_values, axis=0))

    def correct(p: float) -> float:
        return float(np.searchsorted(smallest, p + 1e-9) / split_count)

    results = {}
    for name, p in zip(actual, p_values, strict=True):
        results[name] = Significance(p=correct(p[0]), min_p=correct(p.min()))
    return results
