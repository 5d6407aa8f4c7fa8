"""Data sets: the registry, and the prepared form that every later stage reads.

A data set is one decorated function that returns a `Source`. Preparing it writes `images.npy`
(uint8, N x H x W x 3, memory-mapped from then on), `samples.csv` (id, split, label) and `classes.json`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.files import DamagedFileError, read_csv, read_json, write_csv, write_json, write_npy
from munkey.registry import Registry, import_all

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Source:
    """What a data set's function returns.

    images: (N, H, W, 3) uint8; labels: (N,) integers below len(classes); splits: (N,) names out of SPLITS.
    A sample's id is its position.
    """

    images: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    classes: list[str]


@dataclass(frozen=True)
class DatasetEntry:
    name: str
    description: str
    load: Callable[[], Source]


DATASETS: Registry[DatasetEntry] = Registry("data set")


def dataset(name: str, description: str) -> Callable[[Callable[[], Source]], Callable[[], Source]]:
    """Register a data set under a name, with a line for the README's table."""

    def register(load: Callable[[], Source]) -> Callable[[], Source]:
        DATASETS.add(name, DatasetEntry(name, description, load))
        return load

    return register


@dataclass(frozen=True)
class Dataset:
    """A prepared data set. ids ascend; row i of every array belongs to ids[i].

    images: (N, H, W, 3) uint8, memory-mapped; ids, labels: (N,) int64; splits: (N,) str.
    """

    images: np.ndarray
    ids: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    classes: list[str]

    def ids_of(self, split: str) -> np.ndarray:
        """Sorted sample ids of a split."""
        return self.ids[self.splits == split]

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Row numbers of sample ids. Raises KeyError for an id that the data set lacks."""
        return rows_of(self.ids, ids)


def rows_of(sorted_ids: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Positions of `ids` (any shape) in the ascending array `sorted_ids`. Raises KeyError for unknown ids."""
    positions = np.searchsorted(sorted_ids, ids)
    found = np.take(sorted_ids, positions, mode="clip") == ids if len(sorted_ids) else np.zeros(np.shape(ids), bool)
    if not np.all(found):
        unknown = np.asarray(ids)[~found].ravel()
        raise KeyError(f"{unknown.size} sample ids are unknown here, e.g. {unknown[:5].tolist()}")
    return positions


def prepare(source: Source, folder: str | Path) -> None:
    """Check a source and write its prepared form. Raises ValueError that says what is wrong with it."""
    _check(source)
    folder = Path(folder)
    write_npy(folder / "images.npy", source.images)
    samples = zip(range(len(source.labels)), source.splits.tolist(), source.labels.tolist(), strict=True)
    write_csv(folder / "samples.csv", [{"id": i, "split": split, "label": label} for i, split, label in samples])
    write_json(folder / "classes.json", source.classes)


def load(folder: str | Path) -> Dataset:
    """Open a prepared data set without reading its images into memory."""
    folder = Path(folder)
    samples = read_csv(folder / "samples.csv")
    try:
        images = np.load(folder / "images.npy", mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise DamagedFileError(folder / "images.npy", f"truncated or not an array ({error})") from error
    if len(images) != len(samples):
        raise DamagedFileError(folder / "images.npy", f"holds {len(images)} images, samples.csv {len(samples)}")
    return Dataset(
        images=images,
        ids=np.array([int(s["id"]) for s in samples], dtype=np.int64),
        labels=np.array([int(s["label"]) for s in samples], dtype=np.int64),
        splits=np.array([s["split"] for s in samples]),
        classes=read_json(folder / "classes.json"),
    )


def _check(source: Source) -> None:
    images, labels, splits, classes = source.images, source.labels, source.splits, source.classes
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3:
        raise ValueError(f"images must be (N, H, W, 3) uint8, not {images.shape} {images.dtype}")
    if not len(images) == len(labels) == len(splits):
        raise ValueError(
            f"{len(images)} images, {len(labels)} labels and {len(splits)} splits: must be equal in number"
        )
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
        raise ValueError(f"labels run from {labels.min()} to {labels.max()}, but there are {len(classes)} classes")
    if strays := set(splits.tolist()) - set(SPLITS):
        raise ValueError(f"splits {sorted(strays)} are unknown; there are: {', '.join(SPLITS)}")
    for split in SPLITS:
        absent = set(range(len(classes))) - set(labels[splits == split].tolist())
        if absent:
            raise ValueError(f"no image of class {', '.join(classes[c] for c in sorted(absent))} in split {split!r}")


import_all(__name__, __path__)
