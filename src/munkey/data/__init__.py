"""Data sets: the registry, and the prepared form that every later stage reads.

A data set is one decorated function that returns a `Source`. Preparing it writes `images.npy`
(uint8, N x H x W x 3, memory-mapped from then on), `samples.csv` (id, split, label) and `classes.json`.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.files import DamagedFileError, atomic, read_csv, read_json, write_csv, write_json
from munkey.registry import Registry, import_all

if TYPE_CHECKING:
    from munkey.params import SourceParams

    Load = Callable[[SourceParams], "Source"]

SPLITS = ("train", "val", "test")


class SourceError(ValueError):
    """A data set cannot be used as it is; the message shows the first faults, `faults` holds them all."""

    def __init__(self, what: str, faults: Sequence[str], shown: int = 20) -> None:
        self.faults = list(faults)
        more = [f"... and {len(faults) - shown} more"] if len(faults) > shown else []
        super().__init__(f"{what}: {len(faults)} faults\n" + "\n".join(f"  - {f}" for f in [*faults[:shown], *more]))


@dataclass(frozen=True)
class Source:
    """What a data set's function returns.

    images: (N, H, W, 3) uint8, or blocks of them that are read once and in order, so that all never lie in memory;
    labels: (N,) integers below len(classes); splits: (N,) names out of SPLITS; names: of the files they came from,
    where there are such. A sample's id is its position.
    """

    images: np.ndarray | Iterable[np.ndarray]
    labels: np.ndarray
    splits: np.ndarray
    classes: list[str]
    names: Sequence[str] | None = None

    def blocks(self) -> Iterable[np.ndarray]:
        return [self.images] if isinstance(self.images, np.ndarray) else self.images


@dataclass(frozen=True)
class DatasetEntry:
    """needs_path: whether it reads the user's own files, named by source.path."""

    name: str
    description: str
    needs_path: bool
    load: "Load"


DATASETS: Registry[DatasetEntry] = Registry("data set")


def dataset(name: str, description: str, needs_path: bool = False) -> "Callable[[Load], Load]":
    """Register a data set under a name, with a line for the table of data sets."""

    def register(load: "Load") -> "Load":
        DATASETS.add(name, DatasetEntry(name, description, needs_path, load))
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


def prepare(source: Source, folder: str | Path, report: Callable[[str], None] = print, *, least: int = 1) -> None:
    """Check a source and write its prepared form, image by image in blocks.

    least: training samples that the experiment needs, so that neighbours enough are left after forgetting.

    Raises SourceError that lists all that is wrong with it. Images that stand in two splits are counted in a warning:
    they make it impossible to judge whether they are forgotten. A killed preparation leaves nothing that looks whole.
    """
    if faults := _label_faults(source, least):
        raise SourceError("the data set cannot be used", faults + image_faults(source.blocks()))
    folder = Path(folder)
    for stale in folder.glob(".images.npy.*"):  # of a preparation that was killed; up to 15 GB each
        stale.unlink()
    with atomic(folder / "images.npy") as temporary:
        digests = _write_images(source, temporary)
    if repeated := _repeated(digests, source.splits):
        report(
            f"WARNING: {repeated} images of val or test stand in another split too, pixel by pixel:"
            " what they tell of forgetting is void"
        )
    samples = zip(range(len(source.labels)), source.splits.tolist(), source.labels.tolist(), strict=True)
    rows: list[dict[str, object]] = [{"id": i, "split": split, "label": label} for i, split, label in samples]
    if source.names is not None:
        rows = [row | {"name": name} for row, name in zip(rows, source.names, strict=True)]
    write_csv(folder / "samples.csv", rows)
    write_json(folder / "classes.json", source.classes)


def image_faults(images: Iterable[np.ndarray]) -> list[str]:
    """What is wrong with images, told by reading them all and keeping none."""
    try:
        for _ in images:
            pass
    except SourceError as error:
        return error.faults
    return []


def _repeated(digests: np.ndarray, splits: np.ndarray) -> int:
    """How many images of val equal one of train, plus how many of test equal one of train or val."""
    earlier: set[bytes] = set()
    repeated = 0
    for split in SPLITS:
        here = digests[splits == split].tolist()
        repeated += sum(digest in earlier for digest in here)
        earlier.update(here)
    return repeated


def _write_images(source: Source, path: Path) -> np.ndarray:
    """Write the blocks one after the other; returns a digest of each image."""
    count, shape, digests = len(source.labels), None, []
    with path.open("wb") as file:
        for block in source.blocks():
            if (
                block.dtype != np.uint8
                or block.ndim != 4
                or block.shape[-1] != 3
                or shape not in (None, block.shape[1:])
            ):
                raise ValueError(f"images must be (N, H, W, 3) uint8, not {block.shape} {block.dtype}; all alike")
            if shape is None:
                shape = block.shape[1:]
                header = {"descr": "|u1", "fortran_order": False, "shape": (count, *shape)}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(np.ascontiguousarray(block).data)
            digests += [hashlib.blake2b(image.tobytes(), digest_size=8).digest() for image in block]
    if len(digests) != count:
        raise ValueError(
            f"{len(digests)} images, {count} labels and {len(source.splits)} splits: must be equal in number"
        )
    return np.array(digests)


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


def _label_faults(source: Source, least: int) -> list[str]:
    labels, splits, classes = source.labels, source.splits, source.classes
    faults = []
    if len(labels) != len(splits):
        raise ValueError(f"{len(labels)} labels and {len(splits)} splits: must be equal in number")
    if not set(splits.tolist()) <= set(SPLITS):
        faults.append(f"splits must be {', '.join(SPLITS)}, not {', '.join(sorted(set(splits.tolist())))}")
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
        faults.append(f"labels run from {labels.min()} to {labels.max()}, but there are {len(classes)} classes")
    for split in SPLITS:
        absent = set(range(len(classes))) - set(labels[splits == split].tolist())
        faults += [f"no image of class {classes[label]!r} in split {split!r}" for label in sorted(absent)]
    if (count := int((splits == "train").sum())) < least:
        faults.append(f"{count} training samples; keys.depth and forget.rates need at least {least}")
    return faults


import_all(__name__, __path__)
