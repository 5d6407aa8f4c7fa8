"""Exact sums over rows, which do not depend on their order, so a subtracted row leaves no trace.

Keys are rounded to integer multiples of UNIT. The product of two is an integer multiple of UNIT²,
at most 2^30 times, and float64 represents integers up to 2^53 exactly. So sums of up to
2^53 / 2^30 = 2^23 rows are exact, even in a BLAS that adds in any order.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

UNIT = 2.0**-15
MAX_ROWS = 2**23  # 8.4 million
BLOCK = 4096  # rows per block, which limits the memory for float64 copies


def round_keys(keys: np.ndarray) -> np.ndarray:
    """Round keys (N, d) of unit norm to integer multiples of UNIT, which are exact in float32."""
    # Clipped to less than 1 / UNIT = 2^15 multiples, so that a product of two is below 2^30.
    largest = 1 / UNIT - 1
    multiples = np.clip(np.rint(keys / UNIT), -largest, largest)
    return (UNIT * multiples).astype(np.float32)


@dataclass(frozen=True)
class RandomFeatures:
    """Random features ReLU(R k) of a key k (RanPAC; McDonnell et al. 2023), as multiples of UNIT.

    A key's features are the same in any batch and on any machine, because keys and projections are
    integers, whose products are summed exactly in float64. They do not depend on data.

    count: the number M of features; seed: the seed of R.
    """

    count: int
    seed: int

    def transform(self, keys: np.ndarray) -> np.ndarray:
        """Compute the features (N, M) float32 of keys (N, d)."""
        multiples = round_keys(keys).astype(np.float64) / UNIT
        projections = multiples @ _draw_projection(keys.shape[1], self.count, self.seed)
        # Projections of a unit-norm key have a standard deviation of about 209 / 2^11 = 0.1, so
        # none reaches 1.
        return round_keys(np.maximum(projections, 0) * (UNIT / PROJECTION_SCALE))


# Divisor of the projections' entries, whose standard deviation is 209, to keep features
# below 1.
PROJECTION_SCALE = 2.0**11


@lru_cache(maxsize=2)
def _draw_projection(key_dim: int, count: int, seed: int) -> np.ndarray:
    """Draw integers (d, M), as float64, that are approximately normally distributed.

    Each is a sum of eight random bytes, which are the same in any version of NumPy, unlike the
    normal deviates of a `Generator`.
    """
    random_integers = np.random.PCG64(seed).random_raw(key_dim * count)  # 64 bits each
    random_bytes = random_integers.view(np.uint8).reshape(key_dim, count, 8)
    entries = random_bytes.sum(axis=2, dtype=np.int64) - 1020  # minus the mean, 8 * 127.5
    return entries.astype(np.float64)


@dataclass
class Sums:
    """Sufficient statistics of a closed-form head: integers as float64, which change in place.

    counts: (C,), the number of rows in each class. firsts: (C, w), the sums of their vectors /
    UNIT. seconds: (w, w), the sum of all outer products of vectors / UNIT; None for a head that
    does not use it. features: the random features that are summed; None to sum the rounded keys.
    """

    counts: np.ndarray
    firsts: np.ndarray
    seconds: np.ndarray | None
    features: RandomFeatures | None = None

    @classmethod
    def empty(
        cls, classes: int, key_dim: int, seconds: bool, features: RandomFeatures | None = None
    ) -> "Sums":
        """Make sums of no rows. seconds: whether to sum outer products."""
        if features:
            width = features.count
        else:
            width = key_dim
        outer_products = None
        if seconds:
            outer_products = np.zeros((width, width))
        return cls(np.zeros(classes), np.zeros((classes, width)), outer_products, features)

    def select(self, classes: np.ndarray) -> "Sums":
        """Return the sums of these classes, in this order. All others must be empty."""
        return replace(self, counts=self.counts[classes], firsts=self.firsts[classes])

    def compute_vectors(self, keys: np.ndarray) -> np.ndarray:
        """Compute the vectors (N, w) to sum for keys (N, d): float64 multiples of UNIT."""
        if self.features is None:
            return round_keys(keys).astype(np.float64)
        return self.features.transform(keys).astype(np.float64)

    def add(self, keys: np.ndarray, labels: np.ndarray, sign: int = 1) -> None:
        """Add rows with keys (N, d) and class indices (N,), or subtract them if `sign` is -1.

        Raises ValueError if there would be more than MAX_ROWS rows, or fewer than 0 in a class.
        """
        if self.counts.sum() + sign * len(labels) > MAX_ROWS:
            raise ValueError(
                f"at most {MAX_ROWS:,} rows can be summed without rounding; use KNN or MUNKEY for more"
            )
        counts = self.counts + sign * np.bincount(labels, minlength=len(self.counts))
        if counts.min(initial=0) < 0:
            raise ValueError("more rows of a class were subtracted than the sums contain")
        self.counts = counts
        for start in range(0, len(labels), BLOCK):
            block = slice(start, start + BLOCK)
            multiples = self.compute_vectors(keys[block]) / UNIT
            classes = labels[block]
            one_hot = (classes[:, None] == np.arange(len(self.counts))).astype(np.float64)
            self.firsts += sign * (one_hot.T @ multiples)
            if self.seconds is not None:
                self.seconds += sign * (multiples.T @ multiples)
