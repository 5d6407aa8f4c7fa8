"""A prepared data set, its keys and its nearest neighbors, as files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.data.prepared import Dataset, load, prepare
from munkey.data.source import Source
from munkey.encoders import keys
from munkey.memory import neighbors

CLASSES = ["cat", "dog", "fox"]
SPLITS = np.repeat(["train", "val", "test"], [180, 9, 21])
LABELS = np.arange(210) % 3
UNITS = [f"person {number // 10 % 12}" for number in range(210)]
UNITS[9::10] = [None] * 21


def prepare_dataset(folder: Path) -> Dataset:
    """180 training samples of three classes; twelve persons own nine tenths of them."""
    images = np.random.default_rng(0).integers(0, 256, (210, 2, 2, 3), dtype=np.uint8)
    prepare(Source(images, LABELS, SPLITS, CLASSES, units=UNITS), folder)
    return load(folder)


def write_keys(folder: Path, dataset: Dataset, depth: int) -> tuple[Path, Path]:
    """The files of keys, in 30 separate heaps, and of the `depth` nearest training samples of every sample."""
    generator = np.random.default_rng(1)
    heaps = generator.normal(size=(30, 8)).repeat(7, axis=0)[: len(dataset.ids)]
    heaps += 0.01 * generator.normal(size=heaps.shape)
    vectors = keys.normalize_rows(heaps.astype(np.float32))
    keys.write(folder / "keys.npz", dataset.ids, vectors)
    members = keys.read(folder / "keys.npz", dataset.get_ids("train"))
    nearest = neighbors.find_nearest(keys.Keys(dataset.ids, vectors), members, depth)
    neighbors.write_neighbors(folder / "neighbors.npz", dataset.ids, nearest)
    return folder / "keys.npz", folder / "neighbors.npz"


@dataclass(frozen=True)
class DatasetFiles:
    """The files of a data set that jobs read."""

    images: Path
    keys: Path
    neighbors: Path


def prepare_files(folder: Path, depth: int) -> DatasetFiles:
    """A prepared data set with its keys and neighbors, below a folder."""
    dataset = prepare_dataset(folder / "data")
    return DatasetFiles(folder / "data/images.npy", *write_keys(folder, dataset, depth))
