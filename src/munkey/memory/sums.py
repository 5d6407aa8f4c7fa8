"""Exact sums over rows: the same in any order, so that subtracting a row leaves no trace of it.

Keys are rounded to whole multiples of UNIT. A product of two of them is a whole multiple of UNIT²,
at most 2^30 times, and float64 represents whole numbers up to 2^53 exactly. So sums of up to
2^53 / 2^30 = 2^23 rows are exact, even inside a BLAS that adds in any order.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

UNIT = 2.0**-15
MAX_ROWS = 2**23  # rows: 8.4 million
BLOCK = 4096  # rows per block: bounds the memory of the float64 copies


def round_keys(keys: np.ndarray) -> np.ndarray:
    """Round keys (N, d) of unit norm to whole multiples of UNIT, which float32 holds exactly."""
    # Clipped to less than 1 / UNIT = 2^15 multiples, so that a product of two is below 2^30.
    largest = 1 / UNIT - 1
    multiples = np.clip(np.rint(keys / UNIT), -largest, largest)
    return (UNIT * multiples).astype(np.float32)


@dataclass(frozen=True)
class RandomFeatures:
    """ReLU(R k) of a key k, R random (RanPAC; McDonnell et al. 2023): multiples of UNIT below 1.

    A key's features are the same in any batch and on any machine: keys and projections are whole
    numbers, whose products float64 sums exactly. They do not depend on data.

    count: how many, M; seed: of the projections.
    """

    count: int
    seed: int

    def transform(self, keys: np.ndarray) -> np.ndarray:
        """Return the features (N, M) float32 of keys (N, d)."""
        multiples = round_keys(keys).astype(np.float64) / UNIT
        projections = multiples @ _draw_projection(keys.shape[1], self.count, self.seed)
        # Projections of a key at unit norm have an sd of about 209 / 2^11 = 0.1: none reaches 1.
        return round_keys(np.maximum(projections, 0) * (UNIT / PROJECTION_SCALE))


# of a projection's entries, which have an sd of 209, so that a unit key's features lie below 1
PROJECTION_SCALE = 2.0**11


@lru_cache(maxsize=2)
def _draw_projection(key_dim: int, count: int, seed: int) -> np.ndarray:
    """Draw whole numbers (d, M), as float64, that are nearly normally distributed.

    Each is a sum of eight bytes, which is the same with any version of NumPy; a normal deviate of a
    `Generator` need not be.
    """
    words = np.random.PCG64(seed).random_raw(key_dim * count)  # 64 bits each
    bytes_of_word = words.view(np.uint8).reshape(key_dim, count, 8)
    entries = bytes_of_word.sum(axis=2, dtype=np.int64) - 1020  # minus the mean, 8 * 127.5
    return entries.astype(np.float64)


@dataclass
class Sums:
    """Sufficient statistics of a closed-form head: whole numbers, as float64. They change in place.

    counts: (C,) rows of each class; firsts: (C, w) sums of their vectors / UNIT; seconds: (w, w)
    sum of the outer products of all vectors / UNIT, None for a head that does not use it.
    features: the vectors are these features of keys; None: they are the rounded keys.
    """

    counts: np.ndarray
    firsts: np.ndarray
    seconds: np.ndarray | None
    features: RandomFeatures | None = None

    @classmethod
    def empty(
        cls, classes: int, key_dim: int, seconds: bool, features: RandomFeatures | None = None
    ) -> "Sums":
        """Make sums of no rows. seconds: whether to keep outer products."""
        width = key_dim
        if features:
            width = features.count
        outer_products = None
        if seconds:
            outer_products = np.zeros((width, width))
        return cls(np.zeros(classes), np.zeros((classes, width)), outer_products, features)

    def select(self, classes: np.ndarray) -> "Sums":
        """Return the sums of these classes, in this order. All others must be empty."""
        return replace(self, counts=self.counts[classes], firsts=self.firsts[classes])

    def compute_vectors(self, keys: np.ndarray) -> np.ndarray:
        """Return the vectors (N, w) to sum for keys (N, d): float64, whole multiples of UNIT."""
        if self.features is None:
            return round_keys(keys).astype(np.float64)
        return self.features.transform(keys).astype(np.float64)

    def add(self, keys: np.ndarray, labels: np.ndarray, sign: int = 1) -> None:
        """Add rows with keys (N, d) and classes (N,), or subtract them if `sign` is -1.

        Raises ValueError for more than MAX_ROWS rows in total, and if more rows of a class are
        subtracted than were added.
        """
        if self.counts.sum() + sign * len(labels) > MAX_ROWS:
            raise ValueError(
                f"at most {MAX_ROWS:,} rows can be summed without rounding; use KNN or MUNKEY for more"
            )
        counts = self.counts + sign * np.bincount(labels, minlength=len(self.counts))
        if counts.min(initial=0) < 0:
            raise ValueError("rows were taken out of sums that they are not in")
        self.counts = counts
        for start in range(0, len(labels), BLOCK):
            block = slice(start, start + BLOCK)
            multiples = self.compute_vectors(keys[block]) / UNIT
            classes = labels[block]
            one_hot = (classes[:, None] == np.arange(len(self.counts))).astype(np.float64)
            self.firsts += sign * (one_hot.T @ multiples)
            if self.seconds is not None:
                self.seconds += sign * (multiples.T @ multiples)
