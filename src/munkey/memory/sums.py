"""Exact sums over rows: the same in any order, so that subtracting a row leaves no trace of it.

Keys are rounded to whole multiples of UNIT. A product of two of them is a whole multiple of UNIT²,
at most 2^30 times, and float64 represents whole numbers up to 2^53 exactly. So sums of up to
2^53 / 2^30 = 2^23 rows are exact, even inside a BLAS that adds in any order.
"""

from dataclasses import dataclass

import numpy as np

UNIT = 2.0**-15
MOST = 2**23  # rows: 8.4 million
BLOCK = 4096  # rows at once: bounds the memory of the float64 copies


def rounded(keys: np.ndarray) -> np.ndarray:
    """Keys (N, d) of unit norm, rounded to whole multiples of UNIT. Exact in float32."""
    return (UNIT * np.clip(np.rint(keys / UNIT), 1 - 1 / UNIT, 1 / UNIT - 1)).astype(np.float32)


@dataclass
class Sums:
    """Sufficient statistics of a closed-form head: whole numbers, as float64. They change in place.

    counts: (C,) rows of each class; firsts: (C, d) sums of their keys / UNIT; seconds: (d, d) sum
    of the outer products of all keys / UNIT, None for a head that does not use it.
    """

    counts: np.ndarray
    firsts: np.ndarray
    seconds: np.ndarray | None

    @classmethod
    def empty(cls, classes: int, key_dim: int, seconds: bool) -> "Sums":
        """Sums of no rows. seconds: whether to keep outer products."""
        outer_products = np.zeros((key_dim, key_dim)) if seconds else None
        return cls(np.zeros(classes), np.zeros((classes, key_dim)), outer_products)

    def of(self, classes: np.ndarray) -> "Sums":
        """The sums of these classes, in this order. All others must be empty."""
        return Sums(self.counts[classes], self.firsts[classes], self.seconds)

    def add(self, keys: np.ndarray, labels: np.ndarray, sign: int = 1) -> None:
        """Add rows with keys (N, d) and classes (N,), or subtract them if `sign` is -1.

        Raises ValueError for more than MOST rows in total, and if more rows of a class are
        subtracted than were added.
        """
        if self.counts.sum() + sign * len(labels) > MOST:
            raise ValueError(
                f"at most {MOST:,} rows can be summed without rounding; use KNN or MUNKEY for more"
            )
        counts = self.counts + sign * np.bincount(labels, minlength=len(self.counts))
        if counts.min(initial=0) < 0:
            raise ValueError("rows were taken out of sums that they are not in")
        self.counts = counts
        for start in range(0, len(labels), BLOCK):
            multiples = rounded(keys[start : start + BLOCK]).astype(np.float64) / UNIT
            classes = labels[start : start + BLOCK]
            one_hot = (classes[:, None] == np.arange(len(self.counts))).astype(np.float64)
            self.firsts += sign * (one_hot.T @ multiples)
            if self.seconds is not None:
                self.seconds += sign * (multiples.T @ multiples)
