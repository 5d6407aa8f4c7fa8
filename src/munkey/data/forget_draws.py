"""Draws of forget sets (sec. 4), once per data set, seed and rate.

Apart from reading them, so that a change here has forget sets drawn again and not, say, keys extracted again.
"""

import numpy as np

from munkey.core.randomness import Stage
from munkey.data.splits import apportion

KNOBS = "forget.rates (of an audit's pool, audit.pool)"


def draw(ids: np.ndarray, labels: np.ndarray, rate: float, sampling: str, generator: np.random.Generator) -> np.ndarray:
    """Sorted ids of round(rate * N) samples to forget. ids, labels: (N,).

    sampling: `uniform`, or `stratified` by class (proportional, largest remainder; ties go to the lower class). Raises
    ValueError if the forget set would be empty, a whole class, or the whole set.
    """
    count = round(rate * len(ids))
    if not 0 < count < len(ids):
        raise ValueError(f"{rate} of {len(ids)} training samples is {count}: change {KNOBS} or add data")
    if sampling == "uniform":
        chosen = generator.choice(ids, size=count, replace=False)
    else:
        classes, sizes = np.unique(labels, return_counts=True)
        shares = zip(classes, apportion(sizes, count), strict=True)
        chosen = np.concatenate(
            [generator.choice(ids[labels == label], size=share, replace=False) for label, share in shares]
        )
    emptied = set(labels.tolist()) - set(labels[~np.isin(ids, chosen)].tolist())
    if emptied:
        raise ValueError(f"{rate} of the samples leaves none of class {sorted(emptied)} to retain: lower {KNOBS}")
    return np.sort(chosen)


def halves(
    ids: np.ndarray, labels: np.ndarray, share: float, pool: Stage, pair: Stage
) -> tuple[np.ndarray, np.ndarray]:
    """The two halves of a pool: a share of the training samples, stratified by class and the same for every pair.

    ids, labels: (N,) of the training samples; pool, pair: where the pool and its division are drawn from. The halves
    are sorted, equal in size, and drawn from the pool at random. Raises ValueError as `draw`.
    """
    chosen = draw(ids, labels, share, "stratified", pool.numpy_generator())
    first, second = np.split(pair.numpy_generator().permutation(even(chosen, pool)), 2)
    return np.sort(first), np.sort(second)


def even(ids: np.ndarray, pool: Stage) -> np.ndarray:
    """All of a pool's ids or, of an odd number, all but one at random: every pair must divide the same samples."""
    if len(ids) % 2:
        return np.delete(ids, (pool / "odd").numpy_generator().integers(len(ids)))
    return ids
