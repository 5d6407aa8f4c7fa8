"""NPZ archives in the MedMNIST layout: {train,val,test}_images and _labels, read block by block."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from munkey.data.pictures import as_rgb
from munkey.data.registry import dataset
from munkey.data.source import SPLITS, Source, SourceError, unreadable
from munkey.data.splits import held_out
from munkey.settings import SourceSettings

BLOCK = 64 * 2**20  # bytes read at once


@dataset("npz", "your own NPZ file in the MedMNIST layout", needs_path="file")
def npz(settings: SourceSettings) -> Source:
    return read_archive(Path(str(settings.path)))


def read_archive(
    path: Path, arrays: dict[str, str] | None = None, classes: list[str] | None = None, val: int | None = None
) -> Source:
    """A source from an archive.

    arrays: the prefix of the arrays that serve as each split, by default the split's own name; classes: their names,
    by default numbers; val: if nothing serves as val, how many samples of test become val, by default 40 %.

    Raises SourceError that lists everything wrong.
    """
    with _opened(path) as archive:
        names = set(archive.namelist())
        arrays = arrays or {split: split for split in SPLITS if f"{split}_images.npy" in names}
        _require(path, names, arrays)
        labels = {split: _labels(archive, prefix) for split, prefix in arrays.items()}
    all_labels = np.concatenate(list(labels.values()))
    return Source(
        images=_images(path, list(arrays.values())),
        labels=all_labels,
        splits=_splits(path.stem, labels, val),
        classes=classes or [str(label) for label in range(int(all_labels.max(initial=-1)) + 1)],
    )


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The open archive. Raises SourceError where it turns out not to be whole while it is read."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except SourceError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, KeyError) as error:
        raise unreadable(path, f"damaged or not an NPZ archive ({error})") from error


def _require(path: Path, names: set[str], arrays: dict[str, str]) -> None:
    """Raise SourceError that lists the arrays that an archive of the files `names` lacks."""
    prefixes = {"train": "train", "test": "test", **arrays}.values()
    needed = [f"{prefix}_{content}" for prefix in prefixes for content in ("images", "labels")]
    absent = [f"the array {name} is missing" for name in needed if f"{name}.npy" not in names]
    if absent:
        raise SourceError(f"{path} does not have the MedMNIST layout", absent)


def _labels(archive: zipfile.ZipFile, prefix: str) -> np.ndarray:
    """Labels as (n,) int64. Raises SourceError if they are not integers, one for each image."""
    with archive.open(f"{prefix}_labels.npy") as file:
        labels = np.lib.format.read_array(file, allow_pickle=False)
    if labels.size != len(labels) or not np.issubdtype(labels.dtype, np.integer):
        raise SourceError(prefix, [f"labels must be integers, one an image, not {labels.shape} {labels.dtype}"])
    return labels.reshape(-1).astype(np.int64)


def _splits(name: str, labels: dict[str, np.ndarray], val: int | None) -> np.ndarray:
    """The split of each sample: (N,) names. labels: by split; if there is no val, test is divided at random."""
    splits = {split: np.full(len(values), split) for split, values in labels.items()}
    if "val" not in splits:
        splits["test"] = held_out(name, len(labels["test"]), val)
    return np.concatenate(list(splits.values())).astype("<U5")


def _images(path: Path, prefixes: list[str]) -> Iterator[np.ndarray]:
    """Blocks of the images of all splits. Raises SourceError at the end that lists what is wrong in any of them."""
    faults: list[str] = []
    with _opened(path) as archive:
        for prefix in prefixes:
            with archive.open(f"{prefix}_images.npy") as file:
                yield from rgb_blocks(file, f"{path}: {prefix}_images", faults)
    if faults:
        raise SourceError(f"{path} cannot be used", faults)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype


def _read_header(file: IO[bytes], name: str) -> _Header:
    """Shape and type of an .npy file of images. Raises SourceError if it cannot hold images."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, fortran_order, dtype = read(file)
    if fortran_order or len(shape) not in (3, 4):
        raise SourceError(name, [f"must be (N, H, W) or (N, H, W, channels) in C order, not {shape}"])
    return _Header(shape, dtype)


def rgb_blocks(file: IO[bytes], name: str, faults: list[str]) -> Iterator[np.ndarray]:
    """Blocks of (n, H, W, 3) uint8 from an open .npy file.

    Leaves out blocks that cannot be used, e.g. for NaN, and adds what is wrong with them to `faults`.
    """
    header = _read_header(file, name)
    row = int(np.prod(header.shape[1:])) * header.dtype.itemsize
    step = max(1, BLOCK // row)
    for start in range(0, header.shape[0], step):
        count = min(step, header.shape[0] - start)
        data = file.read(count * row)
        if len(data) < count * row:
            raise unreadable(name, "ends too early")
        try:
            yield as_rgb(np.frombuffer(data, header.dtype).reshape(count, *header.shape[1:]), name, start)
        except SourceError as error:
            faults += error.faults
