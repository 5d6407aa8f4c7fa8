"""Forget sets (sec. 4): drawn once per data set, seed and rate, and shared by every method and both oracles."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import DamagedFileError, read_csv, write_csv
from munkey.core.randomness import Stage
from munkey.data.prepared import Dataset
from munkey.data.splits import apportion


class ForgetSplit(NamedTuple):
    """Sorted ids of the retain set D_r and of the forget set D_f, which together are the training split."""

    retain: np.ndarray
    forget: np.ndarray


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


def write(path: str | Path, ids: np.ndarray) -> None:
    write_csv(path, [{"id": int(i)} for i in ids])


def read(path: str | Path | None) -> np.ndarray:
    """Sorted sample ids of a forget set: (M,) int64. Empty without a file, for what is trained on all samples.

    Raises DamagedFileError where the file is not as it was written, or lists nothing.
    """
    if path is None:
        return np.array([], dtype=np.int64)
    ids = np.array([int(row["id"]) for row in read_csv(path)], dtype=np.int64)
    if not len(ids):
        raise DamagedFileError(path, "lists no sample to forget")
    return ids


def split(dataset: Dataset, path: str | Path | None, absent: str | Path | None = None) -> ForgetSplit:
    """The training split of a data set, divided by a forget set. Without a file, all samples are retained.

    absent: of an audit, the samples that the model was never trained on: they are neither retained nor forgotten.
    """
    forgotten = read(path)
    unseen = np.union1d(forgotten, read(absent))
    return ForgetSplit(np.setdiff1d(dataset.ids_of("train"), unseen), forgotten)


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
