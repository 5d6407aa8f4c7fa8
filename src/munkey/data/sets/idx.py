"""Data sets in the MNIST file format (IDX), gzipped or not, such as Fashion-MNIST and KMNIST."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from munkey.data.arrays import ArrayHeader, Part, find_part_faults, read_labels
from munkey.data.pictures import to_rgb
from munkey.data.registry import dataset
from munkey.data.source import (
    Source,
    SourceError,
    number_classes,
    require_real_file,
    reraise_as_source_error,
)
from munkey.data.splits import split_held_out
from munkey.settings import SourceSettings


def _find_file(file: Path) -> Path:
    """Return the file, or its gzipped form if only that exists."""
    gzipped = file.with_name(f"{file.name}.gz")
    if gzipped.is_file() and not file.is_file():
        return gzipped
    return file


@dataset(
    "idx",
    "your own folder with MNIST-format files (train-* and t10k-*, .gz or not)",
    needs_path="folder",
)
def idx(settings: SourceSettings) -> Source:
    """Read images and labels under source.path. Test is split 40 / 60 into val and test.

    Raises SourceError, with all faults, if a file is missing or the arrays do not fit together.
    """
    root = Path(str(settings.path))
    train_images = _find_file(root / "train-images-idx3-ubyte")
    train_labels = _find_file(root / "train-labels-idx1-ubyte")
    test_images = _find_file(root / "t10k-images-idx3-ubyte")
    test_labels = _find_file(root / "t10k-labels-idx1-ubyte")
    faults = []
    for file in (train_images, train_labels, test_images, test_labels):
        if not file.is_file():
            faults.append(f"{file}[.gz] is missing")
    if faults:
        raise SourceError(f"source.path = {root}", faults)
    parts = [
        Part(_read_header(train_images, 3), _read_header(train_labels, 1)),
        Part(_read_header(test_images, 3), _read_header(test_labels, 1)),
    ]
    faults = find_part_faults(parts, settings.storage_size)
    if faults:
        raise SourceError(f"source.path = {root}", faults)
    train = _read_labels(train_labels)
    test = _read_labels(test_labels)
    labels = np.concatenate([train, test])
    return Source(
        images=_read_images([train_images, test_images]),
        labels=labels - settings.first_label,
        splits=np.concatenate([np.full(len(train), "train"), split_held_out("idx", len(test))]),
        classes=number_classes(labels, settings.first_label),
    )


def _read_header(path: Path, dimensions: int) -> ArrayHeader:
    with _open(path) as file:
        return _parse_header(file, path, dimensions)


def _read_labels(path: Path) -> np.ndarray:
    with _open(path) as file:
        return read_labels(_parse_header(file, path, 1), file)


def _read_images(paths: list[Path]) -> Iterator[np.ndarray]:
    """Yield the images of all files in blocks of (n, H, W, 3) uint8."""
    for path in paths:
        with _open(path) as file:
            for block in _parse_header(file, path, 3).read_blocks(file):
                yield to_rgb(block, str(path))


@contextmanager
def _open(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file, decompressing it if needed. Errors in the block become SourceError."""
    require_real_file(path)
    with (
        reraise_as_source_error(str(path)),
        gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file,
    ):
        yield file


def _parse_header(file: BufferedIOBase, path: Path, dimensions: int) -> ArrayHeader:
    """Parse the header of a file of unsigned bytes. Raises SourceError for other files."""
    if file.read(4) != bytes([0, 0, 8, dimensions]):  # 8 stands for unsigned bytes
        raise SourceError(
            str(path), [f"{path}: is not an IDX file of unsigned bytes in {dimensions} dimensions"]
        )
    lengths = file.read(4 * dimensions)
    if len(lengths) < 4 * dimensions:
        raise SourceError(str(path), [f"{path}: ends within its header"])
    shape = tuple(np.frombuffer(lengths, ">u4").tolist())
    header = ArrayHeader(str(path), shape, np.dtype(np.uint8), path.stat().st_size)
    if path.suffix == ".gz":  # an array that is not compressed cannot be larger than its file
        header.require_plausible_size()
    return header
