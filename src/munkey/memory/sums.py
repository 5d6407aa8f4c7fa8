"""Exact sums over rows. Their order does not matter, so subtracting a row leaves no trace.

Keys are rounded to integer multiples of UNIT. The product of two entries is then an integer of at
most 2^30, times UNIT². Since float64 represents integers up to 2^53 exactly, sums of up to
2^53 / 2^30 = 2^23 rows are exact, even if a BLAS adds them in any order.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from munkey.core.free_memory import measure_free_memory

UNIT = 2.0**-15
MAX_ROWS = 2**23  # 8.4 million
BLOCK = 4096  # rows per block; limits the memory for float64 copies
# At most so many matrices as large as the covariance are in memory during a fit and a deletion.
MATRICES = 7
MIN_CHECKED_BYTES = 2**30  # less fits everywhere


def round_keys(keys: np.ndarray) -> np.ndarray:
    """Round keys (N, d) of unit norm to multiples of UNIT, which float32 represents exactly."""
    # Multiples are clipped below 1 / UNIT = 2^15, so that the product of two is below 2^30.
    max_multiple = 1 / UNIT - 1
    multiples = np.clip(np.rint(keys / UNIT), -max_multiple, max_multiple)
    return (UNIT * multiples).astype(np.float32)


# The divisor of the entries of a random projection, whose standard deviation is 209. The
# projections of a unit-norm key then have a standard deviation of about 0.1, so none reaches 1.
PROJECTION_SCALE = 2.0**11


@dataclass(frozen=True)
class RandomFeatures:
    """Features ReLU(R k) of a key k, with a random matrix R (RanPAC; McDonnell et al. 2023).

    Features are multiples of UNIT below 1. A key has the same features in any batch and on any
    machine, because keys and projections are integers, whose products float64 sums exactly. The
    projections do not depend on data.

    Attributes
    ----------
    count
        The number of features, M.
    seed
        The seed of the random projections.
    """

    count: int
    seed: int

    def transform(self, keys: np.ndarray) -> np.ndarray:
        """Return the features (N, M) float32 of keys (N, d)."""
        multiples = round_keys(keys).astype(np.float64) / UNIT
        projections = multiples @ _draw_projection(keys.shape[1], self.count, self.seed)
        return round_keys(np.maximum(projections, 0) * (UNIT / PROJECTION_SCALE))


@lru_cache(maxsize=2)
def _draw_projection(key_dim: int, count: int, seed: int) -> np.ndarray:
    """Draw a matrix (d, M) of approximately normally distributed integers, as float64.

    Each entry is the sum of eight random bytes, centered at 0. Unlike the normal deviates of a
    `Generator`, it is the same with any version of NumPy.
    """
    random_words = np.random.PCG64(seed).random_raw(key_dim * count)  # of 64 bits each
    random_bytes = random_words.view(np.uint8).reshape(key_dim, count, 8)
    mean = 1020  # of the sum of eight bytes: 8 * 127.5
    entries = random_bytes.sum(axis=2, dtype=np.int64) - mean
    return entries.astype(np.float64)


def _require_memory(width: int) -> None:
    """Raise ValueError if matrices (width, width) do not fit in the free memory.

    Linux would kill the process later, when it fills them.
    """
    needed_bytes = MATRICES * 8 * width**2
    if needed_bytes < MIN_CHECKED_BYTES:
        return
    free_bytes = measure_free_memory()
    if free_bytes is not None and needed_bytes > free_bytes:
        raise ValueError(
            f"vectors of d = {width:,} numbers need about {needed_bytes / 1e9:.0f} GB for their"
            f" covariance, but {free_bytes / 1e9:.0f} GB of memory are free: make keys shorter (a"
            " smaller side for the encoder pixels, fewer encoders, fewer random features), or use"
            " ncm, knn or krr, which have no covariance"
        )


@dataclass
class Sums:
    """Sufficient statistics of a closed-form head: integers, stored as float64.

    ``add`` changes them in place.

    Attributes
    ----------
    counts
        (C,): number of rows of each class.
    class_sums
        (C, w): sum of the vectors of each class, divided by UNIT.
    outer_products
        (w, w): sum of the outer products of all vectors, divided by UNIT². None for a head that
        does not need it.
    features
        The features of a key that are summed. None to sum the rounded keys themselves.
    """

    counts: np.ndarray
    class_sums: np.ndarray
    outer_products: np.ndarray | None
    features: RandomFeatures | None = None

    @classmethod
    def empty(
        cls,
        classes: int,
        key_dim: int,
        with_outer_products: bool,
        features: RandomFeatures | None = None,
    ) -> "Sums":
        """Return the sums of zero rows.

        Raises ValueError if the matrices of outer products would not fit in the free memory.
        """
        width = features.count if features else key_dim
        if with_outer_products:
            _require_memory(width)
        return cls(
            counts=np.zeros(classes),
            class_sums=np.zeros((classes, width)),
            outer_products=np.zeros((width, width)) if with_outer_products else None,
            features=features,
        )

    def select(self, classes: np.ndarray) -> "Sums":
        """Return the sums of these classes, in this order. All others must be empty."""
        return replace(self, counts=self.counts[classes], class_sums=self.class_sums[classes])

    def resize(self, classes: int) -> None:
        """Append empty classes, or remove empty ones at the end, until there are so many.

        Raises ValueError if a class that would be removed has rows.
        """
        if self.counts[classes:].any():
            raise ValueError(f"a class beyond the first {classes} has rows")
        self.counts = self.counts[:classes]
        self.class_sums = self.class_sums[:classes]
        added_count = classes - len(self.counts)
        self.counts = np.pad(self.counts, (0, added_count))
        self.class_sums = np.pad(self.class_sums, ((0, added_count), (0, 0)))

    def compute_vectors(self, keys: np.ndarray) -> np.ndarray:
        """Return the vectors (N, w) to sum for keys (N, d), as float64 multiples of UNIT."""
        if self.features is None:
            return round_keys(keys).astype(np.float64)
        return self.features.transform(keys).astype(np.float64)

    def add(self, keys: np.ndarray, labels: np.ndarray, sign: int = 1) -> None:
        """Add rows with keys (N, d) and classes (N,), or subtract them if `sign` is -1.

        Raises ValueError if there would be more than MAX_ROWS rows in total, or if more rows of a
        class are subtracted than were added.
        """
        if self.counts.sum() + sign * len(labels) > MAX_ROWS:
            raise ValueError(
                f"at most {MAX_ROWS:,} rows can be summed without rounding errors; use KNN or"
                " MUNKEY for more rows"
            )
        counts = self.counts + sign * np.bincount(labels, minlength=len(self.counts))
        if counts.min(initial=0) < 0:
            raise ValueError("cannot subtract more rows of a class than were added")
        self.counts = counts
        for start in range(0, len(labels), BLOCK):
            block = slice(start, start + BLOCK)
            multiples = self.compute_vectors(keys[block]) / UNIT
            one_hot = (labels[block, None] == np.arange(len(self.counts))).astype(np.float64)
            self.class_sums += sign * (one_hot.T @ multiples)
            if self.outer_products is not None:
                self.outer_products += sign * (multiples.T @ multiples)
