"""Sums over rows that come out the same in any order, so that a row can be taken out again to the bit.

A key is rounded to whole multiples of UNIT. Products of two such numbers are whole multiples of UNIT², at most 2^30 of
them, and float64 holds whole numbers up to 2^53: sums of up to MOST rows are exact, also inside of BLAS.
"""

from dataclasses import dataclass

import numpy as np

UNIT = 2.0**-15
MOST = 2**23  # rows: 8.4 million
BLOCK = 4096  # rows at once


def rounded(keys: np.ndarray) -> np.ndarray:
    """Keys (N, d) of unit norm as whole multiples of UNIT, fewer than 2^15 of them; float32 holds these exactly."""
    return (UNIT * np.clip(np.rint(keys / UNIT), 1 - 1 / UNIT, 1 / UNIT - 1)).astype(np.float32)


@dataclass
class Sums:
    """What a closed form reads of its rows: whole numbers, as float64. They change in place.

    counts: (C,) rows of each class; firsts: (C, d) sums of their keys / UNIT; seconds: (d, d) the sum of the outer
    products of all keys / UNIT, None where nobody reads it.
    """

    counts: np.ndarray
    firsts: np.ndarray
    seconds: np.ndarray | None

    @classmethod
    def empty(cls, classes: int, key_dim: int, seconds: bool) -> "Sums":
        """Of no rows. seconds: whether they are kept."""
        return cls(np.zeros(classes), np.zeros((classes, key_dim)), np.zeros((key_dim, key_dim)) if seconds else None)

    def of(self, classes: np.ndarray) -> "Sums":
        """Of some classes alone, in this order, which must be all that have rows: `seconds` are
        those of all rows.
        """
        return Sums(self.counts[classes], self.firsts[classes], self.seconds)

    def add(self, keys: np.ndarray, labels: np.ndarray, sign: int = 1) -> None:
        """Add rows: keys (N, d), which are `rounded` first, and classes (N,). sign: -1 takes rows
        out again.

        Raises ValueError for more than MOST rows, and where more rows of a class are taken out than
        are in.
        """
        if self.counts.sum() + sign * len(labels) > MOST:
            raise ValueError(f"at most {MOST:,} rows can be summed without rounding; use KNN or MUNKEY for more")
        counts = self.counts + sign * np.bincount(labels, minlength=len(self.counts))
        if counts.min(initial=0) < 0:
            raise ValueError("rows were taken out of sums that they are not in")
        self.counts = counts
        for start in range(0, len(labels), BLOCK):
            whole = rounded(keys[start : start + BLOCK]).astype(np.float64) / UNIT
            classes = labels[start : start + BLOCK]
            members = (classes[:, None] == np.arange(len(self.counts))).astype(np.float64)
            self.firsts += sign * (members.T @ whole)
            if self.seconds is not None:
                self.seconds += sign * (whole.T @ whole)
