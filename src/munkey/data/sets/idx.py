"""The MNIST file format (IDX), gzipped or not: MNIST, Fashion-MNIST, KMNIST."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from munkey.data.arrays import Part, Stored, all_labels, part_faults
from munkey.data.pictures import as_rgb
from munkey.data.registry import dataset
from munkey.data.source import Source, SourceError, numbered, readable
from munkey.data.splits import held_out
from munkey.settings import SourceSettings


def _plain_or_gzipped(file: Path) -> Path:
    """The file, or its gzipped form if only that one exists."""
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
    """Images and labels under source.path; the test part is split 40 / 60 into val and test."""
    root = Path(str(settings.path))
    train_images = _plain_or_gzipped(root / "train-images-idx3-ubyte")
    train_labels = _plain_or_gzipped(root / "train-labels-idx1-ubyte")
    test_images = _plain_or_gzipped(root / "t10k-images-idx3-ubyte")
    test_labels = _plain_or_gzipped(root / "t10k-labels-idx1-ubyte")
    absent = []
    for file in (train_images, train_labels, test_images, test_labels):
        if not file.is_file():
            absent.append(f"{file}[.gz] is missing")
    if absent:
        raise SourceError(f"source.path = {root}", absent)
    parts = [
        Part(_stored(train_images, 3), _stored(train_labels, 1)),
        Part(_stored(test_images, 3), _stored(test_labels, 1)),
    ]
    faults = part_faults(parts, settings.storage_size)
    if faults:
        raise SourceError(f"source.path = {root}", faults)
    train = _labels(train_labels)
    test = _labels(test_labels)
    together = np.concatenate([train, test])
    return Source(
        images=_images([train_images, test_images]),
        labels=together,
        splits=np.concatenate([np.full(len(train), "train"), held_out("idx", len(test))]),
        classes=numbered(together),
    )


def _stored(path: Path, dimensions: int) -> Stored:
    with _opened(path) as file:
        return _header(file, path, dimensions)


def _labels(path: Path) -> np.ndarray:
    with _opened(path) as file:
        return all_labels(_header(file, path, 1), file)


def _images(paths: list[Path]) -> Iterator[np.ndarray]:
    """Blocks of (n, H, W, 3) uint8 of all files."""
    for path in paths:
        with _opened(path) as file:
            for block in _header(file, path, 3).blocks(file):
                yield as_rgb(block, str(path))


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """The file, unpacked as it is read. Errors while it is open become SourceError."""
    with readable(str(path)), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield file


def _header(file: BufferedIOBase, path: Path, dimensions: int) -> Stored:
    """The header of a file of unsigned bytes: a magic number, and the lengths of its dimensions."""
    if file.read(4) != bytes([0, 0, 8, dimensions]):
        raise SourceError(
            str(path), [f"{path}: is not an IDX file of unsigned bytes in {dimensions} dimensions"]
        )
    lengths = file.read(4 * dimensions)
    if len(lengths) < 4 * dimensions:
        raise SourceError(str(path), [f"{path}: ends within its header"])
    shape = tuple(np.frombuffer(lengths, ">u4").tolist())
    stored = Stored(str(path), shape, np.dtype(np.uint8), path.stat().st_size)
    if path.suffix == ".gz":
        stored.require_moderate()
    return stored
