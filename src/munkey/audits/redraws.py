"""Randomization tests: without residue, redrawn halves of the pool look like the actual halves."""

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
    least
        The smallest possible p-value.
    """

    p: float
    least: float


def run_permutation_tests(
    statistics: Statistics, first: np.ndarray, generator: np.random.Generator, redraws: int
) -> dict[str, Significance]:
    """Test several statistics of Halves.first together. Each must grow with the residue.

    A redraw splits each pair's pool at random, as was done before training. A statistic's p-value
    is the share of all splits, redrawn or actual, where it is at least as large as in the actual
    split. Its corrected p-value is the share of splits where the smallest p-value of all statistics
    is at most as large (Westfall and Young 1993, min p). This is exact, even for few pairs.
    """
    actual = statistics(first)
    values = [list(actual.values())]
    for _ in range(redraws):
        redrawn = statistics(generator.permuted(first, axis=1))
        values.append(list(redrawn.values()))
    splits = len(values)

    p_values = []  # for each statistic, the p-value (splits,) of each split
    for column in np.array(values).T:
        slack = 1e-9 * np.abs(column).max()  # values that differ only by rounding are equal
        smaller = np.searchsorted(np.sort(column), column - slack)
        p_values.append(1 - smaller / splits)
    smallest = np.sort(np.min(p_values, axis=0))

    def correct(p: float) -> float:
        return float(np.searchsorted(smallest, p + 1e-9) / splits)

    results = {}
    for name, p in zip(actual, p_values, strict=True):
        results[name] = Significance(p=correct(p[0]), least=correct(p.min()))
    return results
