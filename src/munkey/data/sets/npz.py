"""NPZ archives in the MedMNIST layout: {train,val,test}_images and _labels, read block by block."""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from munkey.data.arrays import Part, Stored, all_labels, part_faults
from munkey.data.intake.unit_names import unit_names
from munkey.data.pictures import as_rgb
from munkey.data.registry import dataset
from munkey.data.source import SPLITS, Source, SourceError, numbered, readable
from munkey.data.splits import held_out
from munkey.settings import SourceSettings


@dataset("npz", "your own NPZ file in the MedMNIST layout", needs_path="file")
def npz(settings: SourceSettings) -> Source:
    return read_archive(Path(str(settings.path)), storage_size=settings.storage_size)


def read_archive(
    path: Path,
    arrays: dict[str, str] | None = None,
    classes: list[str] | None = None,
    val: int | None = None,
    storage_size: int | None = None,
) -> Source:
    """A source from an archive.

    arrays: the prefix of the arrays that serve as each split, by default the split's own name;
    classes: their names, by default numbers; val: if nothing serves as val, how many samples of
    test become val, by default 40 %; storage_size: side to which the images will be resized; None:
    they must be alike.

    Raises SourceError that lists everything wrong.
    """
    with _archive(path) as archive:
        names = set(archive.namelist())
        arrays = arrays or {split: split for split in SPLITS if f"{split}_images.npy" in names}
        _require(path, names, arrays)
        parts = [
            Part(_stored(archive, f"{prefix}_images"), _stored(archive, f"{prefix}_labels"))
            for prefix in arrays.values()
        ]
        faults = part_faults(parts, storage_size)
        if faults:
            raise SourceError(f"{path} cannot be used", faults)
        labels = {split: _labels(archive, f"{prefix}_labels") for split, prefix in arrays.items()}
        units = _units(
            path, archive, list(arrays.values()), [len(each) for each in labels.values()]
        )
    together = np.concatenate(list(labels.values()))
    return Source(
        images=_images(path, [f"{prefix}_images" for prefix in arrays.values()]),
        labels=together,
        splits=_splits(path.stem, labels, val),
        classes=classes or numbered(together),
        units=units,
    )


def _units(
    path: Path, archive: zipfile.ZipFile, prefixes: list[str], counts: list[int]
) -> list[str | None] | None:
    """The unit of each sample, from the arrays {prefix}_units; None without such arrays."""
    names = []
    for prefix in prefixes:
        if f"{prefix}_units.npy" in archive.namelist():
            names.append(f"{prefix}_units")
    units: list[str | None] = []
    for name, count in zip(names, counts, strict=False):
        if len(names) < len(prefixes) or math.prod(_stored(archive, name).shape) != count:
            raise SourceError(
                f"{path} cannot be used",
                [f"{name}: each split needs one unit for each of its images"],
            )
        with _opened(archive, name) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        units += unit_names(array.reshape(-1).tolist())
    return units or None


def _require(path: Path, names: set[str], arrays: dict[str, str]) -> None:
    """Raise SourceError that lists the arrays that an archive of the files `names` lacks."""
    prefixes = {"train": "train", "test": "test", **arrays}.values()
    absent = []
    for prefix in prefixes:
        for name in (f"{prefix}_images", f"{prefix}_labels"):
            if f"{name}.npy" not in names:
                absent.append(f"the array {name} is missing")
    if absent:
        raise SourceError(f"{path} does not have the MedMNIST layout", absent)


def _stored(archive: zipfile.ZipFile, name: str) -> Stored:
    with _opened(archive, name) as file:
        return _header(archive, file, name)


def _labels(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with _opened(archive, name) as file:
        return all_labels(_header(archive, file, name), file)


def _splits(name: str, labels: dict[str, np.ndarray], val: int | None) -> np.ndarray:
    """The split of each sample: (N,) names.

    labels: by split; without val, test is divided at random.
    """
    splits = []
    for split, values in labels.items():
        if split == "test" and "val" not in labels:
            splits.append(held_out(name, len(values), val))
        else:
            splits.append(np.full(len(values), split))
    return np.concatenate(splits).astype("<U5")


def _images(path: Path, names: list[str]) -> Iterator[np.ndarray]:
    """Blocks of the images of all splits. Raises SourceError at the end that lists all faults."""
    faults: list[str] = []
    with _archive(path) as archive:
        for name in names:
            yield from rgb_blocks(archive, name, faults)
    if faults:
        raise SourceError(f"{path} cannot be used", faults)


def rgb_blocks(archive: zipfile.ZipFile, name: str, faults: list[str]) -> Iterator[np.ndarray]:
    """Blocks of (n, H, W, 3) uint8 of an array.

    Skips blocks that cannot be used, e.g. for NaN, and adds their faults to `faults`.
    """
    start = 0
    try:
        with _opened(archive, name) as file:
            for block in _header(archive, file, name).blocks(file):
                try:
                    yield as_rgb(block, name, start)
                except SourceError as error:
                    faults += error.faults
                start += len(block)
    except SourceError as error:
        faults += error.faults


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive. Errors while it is open become SourceError."""
    with readable(str(path)):
        if path.exists() and not path.is_file():  # a pipe would wait for who writes into it
            raise OSError("is not a plain file")
        with zipfile.ZipFile(path) as archive:
            yield archive


@contextmanager
def _opened(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """An array of an archive. Errors while it is open become SourceError."""
    with readable(f"{archive.filename}: {name}"), archive.open(f"{name}.npy") as file:
        yield file


def _header(archive: zipfile.ZipFile, file: IO[bytes], name: str) -> Stored:
    """The header of an .npy file.

    Raises SourceError if the array is far larger than its packed size.
    """
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, fortran_order, dtype = read(file)
    stored = Stored(name, shape, dtype, archive.getinfo(f"{name}.npy").compress_size, fortran_order)
    stored.require_moderate()
    return stored
