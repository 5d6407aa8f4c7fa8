"""NPZ archives in the MedMNIST layout: {train,val,test}_images and _labels, read block by block."""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from munkey.data.arrays import ArrayHeader, Part, find_part_faults, read_labels
from munkey.data.intake.unit_names import unit_names
from munkey.data.pictures import to_rgb
from munkey.data.registry import dataset
from munkey.data.source import (
    SPLIT_NAMES,
    Source,
    SourceError,
    number_classes,
    require_real_file,
    reraise_as_source_error,
)
from munkey.data.splits import complete_splits, split_held_out
from munkey.settings import SourceSettings


@dataset("npz", "your own NPZ file in the MedMNIST layout", needs_path="file")
def npz(settings: SourceSettings) -> Source:
    return read_archive(
        Path(str(settings.path)),
        storage_size=settings.storage_size,
        first_label=settings.first_label,
    )


def read_archive(
    path: Path,
    arrays: dict[str, str] | None = None,
    classes: list[str] | None = None,
    val: int | None = None,
    storage_size: int | None = None,
    first_label: int = 0,
) -> Source:
    """Read an archive as a source. Raises SourceError if it cannot be used.

    Parameters
    ----------
    arrays
        The prefix of each split's arrays; by default, the split's name.
    classes
        Class names; by default, numbers.
    val
        The number of test samples that become val if there is no array for val; by default, 40%.
    storage_size
        Side to which images will be resized. Without it, all must have the same size.
    """
    with _open_archive(path) as archive:
        names = set(archive.namelist())
        arrays = arrays or _find_prefixes(path, names)
        _require_arrays(path, names, arrays)
        prefixes = list(arrays.values())
        parts = []
        for prefix in prefixes:
            images_header = _read_header(archive, f"{prefix}_images")
            labels_header = _read_header(archive, f"{prefix}_labels")
            parts.append(Part(images_header, labels_header))
        faults = find_part_faults(parts, storage_size)
        if faults:
            raise SourceError(f"{path} cannot be used", faults)
        labels = {}
        for split, prefix in arrays.items():
            labels[split] = _read_labels(archive, f"{prefix}_labels")
        counts = [len(split_labels) for split_labels in labels.values()]
        units = _read_units(path, archive, prefixes, counts)
    all_labels = np.concatenate(list(labels.values()))
    return Source(
        images=_read_images(path, [f"{prefix}_images" for prefix in prefixes]),
        labels=all_labels - first_label,
        splits=_make_splits(path.stem, labels, val, units),
        classes=classes or number_classes(all_labels, first_label),
        units=units,
    )


def _find_prefixes(path: Path, names: set[str]) -> dict[str, str]:
    """Return the prefix of each split's arrays in an archive with the files `names`.

    Raises SourceError if a split has two prefixes, such as `val` and `valid`.
    """
    prefixes: dict[str, str] = {}
    for prefix, split in SPLIT_NAMES.items():
        if f"{prefix}_images.npy" not in names:
            continue
        if split in prefixes:
            fault = f"{prefixes[split]}_images and {prefix}_images are the same split: keep one"
            raise SourceError(f"{path} cannot be used", [fault])
        prefixes[split] = prefix
    return prefixes


def _read_units(
    path: Path, archive: zipfile.ZipFile, prefixes: list[str], counts: list[int]
) -> list[str | None] | None:
    """Read the unit of each sample from the arrays {prefix}_units; None without any."""
    names = []
    for prefix in prefixes:
        if f"{prefix}_units.npy" in archive.namelist():
            names.append(f"{prefix}_units")
    if not names:
        return None
    message = "each split needs one unit per image"
    if len(names) < len(prefixes):
        raise SourceError(f"{path} cannot be used", [f"{names[0]}: {message}"])
    units: list[str | None] = []
    for name, count in zip(names, counts, strict=True):
        if math.prod(_read_header(archive, name).shape) != count:
            raise SourceError(f"{path} cannot be used", [f"{name}: {message}"])
        with _open_array(archive, name) as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        units += unit_names(array.reshape(-1).tolist())
    return units


def _require_arrays(path: Path, names: set[str], arrays: dict[str, str]) -> None:
    """Raise SourceError if arrays are missing from an archive with the files `names`."""
    # If `arrays` does not list train and test, report their default arrays as missing.
    prefixes = {"train": "train", "test": "test", **arrays}.values()
    faults = []
    for prefix in prefixes:
        for name in (f"{prefix}_images", f"{prefix}_labels"):
            if f"{name}.npy" not in names:
                faults.append(f"the array {name} is missing")
    if faults:
        raise SourceError(f"{path} does not have the MedMNIST layout", faults)


def _read_header(archive: zipfile.ZipFile, name: str) -> ArrayHeader:
    with _open_array(archive, name) as file:
        return _parse_header(archive, file, name)


def _read_labels(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with _open_array(archive, name) as file:
        return read_labels(_parse_header(archive, file, name), file)


def _make_splits(
    name: str,
    labels: dict[str, np.ndarray],
    val: int | None,
    units: list[str | None] | None,
) -> np.ndarray:
    """Return the split of each sample, (N,) names. Without val, test is divided at random.

    A unit stays in one split where it is drawn here.
    """
    if units is not None and val is None:
        names = [split for split, values in labels.items() for _ in values]
        return complete_splits(name, names, np.concatenate(list(labels.values())), [], units)
    splits = []
    for split, values in labels.items():
        if split == "test" and "val" not in labels:
            splits.append(split_held_out(name, len(values), val))
        else:
            splits.append(np.full(len(values), split))
    return np.concatenate(splits).astype("<U5")


def _read_images(path: Path, names: list[str]) -> Iterator[np.ndarray]:
    """Yield the images of all arrays in blocks, and raise SourceError with all faults at the end."""
    faults: list[str] = []
    with _open_archive(path) as archive:
        for name in names:
            try:
                yield from _read_rgb_blocks(archive, name, faults)
            except SourceError as error:  # such as a truncated array
                faults += error.faults
    if faults:
        raise SourceError(f"{path} cannot be used", faults)


def _read_rgb_blocks(
    archive: zipfile.ZipFile, name: str, faults: list[str]
) -> Iterator[np.ndarray]:
    """Yield the images of an array in blocks of (n, H, W, 3) uint8, and append others to `faults`."""
    start = 0
    with _open_array(archive, name) as file:
        for block in _parse_header(archive, file, name).read_blocks(file):
            try:
                rgb_block = to_rgb(block, name, start)
            except SourceError as error:
                faults += error.faults
            else:
                yield rgb_block
            start += len(block)


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive. Errors in the block become SourceError."""
    with reraise_as_source_error(str(path)):
        if path.exists() and not path.is_file():  # opening a pipe would wait for a writer
            raise OSError(f"{path} is not a regular file")
        require_real_file(path)
        with zipfile.ZipFile(path) as archive:
            yield archive


@contextmanager
def _open_array(archive: zipfile.ZipFile, name: str) -> Iterator[IO[bytes]]:
    """Open an array of an archive. Errors in the block become SourceError."""
    with (
        reraise_as_source_error(f"{archive.filename}: {name}"),
        archive.open(f"{name}.npy") as file,
    ):
        yield file


def _parse_header(archive: zipfile.ZipFile, file: IO[bytes], name: str) -> ArrayHeader:
    """Parse the header of an .npy file. Raises SourceError for a zip bomb."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        read_array_header = np.lib.format.read_array_header_1_0
    elif version == (2, 0):
        read_array_header = np.lib.format.read_array_header_2_0
    else:
        raise ValueError(
            f"version {version[0]}.{version[1]} of the .npy format; save the array again with"
            " numpy.savez, without named fields"
        )
    shape, fortran_order, dtype = read_array_header(file)
    packed_bytes = archive.getinfo(f"{name}.npy").compress_size
    header = ArrayHeader(name, shape, dtype, packed_bytes, fortran_order)
    header.require_plausible_size()
    return header
