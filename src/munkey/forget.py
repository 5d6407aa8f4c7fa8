"""Forget sets (sec. 4): drawn once per data set, seed and rate, and shared by every method and both oracles."""

import numpy as np

from munkey.data import Dataset
from munkey.data.splits import apportion
from munkey.files import read_csv, write_csv


def draw(ids: np.ndarray, labels: np.ndarray, rate: float, sampling: str, generator: np.random.Generator) -> np.ndarray:
    """Sorted ids of round(rate * N) samples to forget.

    sampling: `uniform`, or `stratified` by class (proportional, largest remainder; ties to the lower class). Raises
    ValueError where the forget set would be empty or would swallow a whole class or the whole set.
    """
    count = round(rate * len(ids))
    if not 0 < count < len(ids):
        raise ValueError(f"forget.rates: {rate} of {len(ids)} training samples is {count}; raise the rate or add data")
    if sampling == "uniform":
        chosen = generator.choice(ids, size=count, replace=False)
    else:
        classes, sizes = np.unique(labels, return_counts=True)
        chosen = np.concatenate(
            [
                generator.choice(ids[labels == label], size=share, replace=False)
                for label, share in zip(classes, apportion(sizes, count), strict=True)
            ]
        )
    emptied = set(labels.tolist()) - set(labels[~np.isin(ids, chosen)].tolist())
    if emptied:
        raise ValueError(f"forgetting {rate} of the samples leaves none of class {sorted(emptied)} to retain")
    return np.sort(chosen)


def write(path: str, ids: np.ndarray) -> None:
    write_csv(path, [{"id": int(i)} for i in ids])


def read(path: str | None) -> np.ndarray:
    """Sorted sample ids of a forget set; none at all where there is no file, for what is trained on everything."""
    return np.array([int(row["id"]) for row in read_csv(path)] if path else [], dtype=np.int64)


def split(dataset: Dataset, path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Sorted ids of the retain set D_r and of the forget set D_f; everything is retained where there is no file."""
    forgotten = read(path)
    return np.setdiff1d(dataset.ids_of("train"), forgotten), forgotten
