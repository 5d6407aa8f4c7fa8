"""The MNIST file format (IDX), gzipped or not: MNIST, Fashion-MNIST, KMNIST as their authors or Debian ship them."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.data.arrays import Part, Stored, all_labels, part_faults
from munkey.data.pictures import as_rgb
from munkey.data.registry import dataset
from munkey.data.source import Source, SourceError, numbered, readable
from munkey.data.splits import held_out
from munkey.settings import SourceSettings


class Files(NamedTuple):
    """The two files of the training or test part."""

    images: Path
    labels: Path

    @classmethod
    def under(cls, root: Path, prefix: str) -> "Files":
        """The part whose files begin with `train` or `t10k`."""
        return cls(
            _plain_or_gzipped(root / f"{prefix}-images-idx3-ubyte"),
            _plain_or_gzipped(root / f"{prefix}-labels-idx1-ubyte"),
        )


def _plain_or_gzipped(file: Path) -> Path:
    """The file, or its gzipped form if only that one exists."""
    gzipped = file.with_name(f"{file.name}.gz")
    return gzipped if gzipped.exists() and not file.exists() else file


@dataset("idx", "your own folder with MNIST-format files (train-* and t10k-*, .gz or not)", needs_path="folder")
def idx(settings: SourceSettings) -> Source:
    """Images and labels under source.path; the test part is split 40 / 60 into val and test."""
    root = Path(str(settings.path))
    files = [Files.under(root, "train"), Files.under(root, "t10k")]
    if absent := [f"{file}[.gz] is missing" for part in files for file in part if not file.exists()]:
        raise SourceError(f"source.path = {root}", absent)
    parts = [Part(_stored(part.images, 3), _stored(part.labels, 1)) for part in files]
    if faults := part_faults(parts, settings.storage_size):
        raise SourceError(f"source.path = {root}", faults)
    train, test = (_labels(part.labels) for part in files)
    labels = np.concatenate([train, test])
    return Source(
        images=_images([part.images for part in files]),
        labels=labels,
        splits=np.concatenate([np.full(len(train), "train"), held_out("idx", len(test))]),
        classes=numbered(labels),
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
    """The file, unpacked as it is read. What goes wrong while it is open raises SourceError."""
    with readable(str(path)), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield file


def _header(file: BufferedIOBase, path: Path, dimensions: int) -> Stored:
    """The beginning of a file of unsigned bytes: a magic number, and the lengths of its dimensions."""
    if file.read(4) != bytes([0, 0, 8, dimensions]):
        raise SourceError(str(path), [f"{path}: is not an IDX file of unsigned bytes in {dimensions} dimensions"])
    lengths = file.read(4 * dimensions)
    if len(lengths) < 4 * dimensions:
        raise SourceError(str(path), [f"{path}: ends within its header"])
    return Stored(str(path), tuple(np.frombuffer(lengths, ">u4").tolist()), np.dtype(np.uint8))
