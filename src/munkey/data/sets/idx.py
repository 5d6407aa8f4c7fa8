"""The MNIST file format (IDX), gzipped or not: MNIST, Fashion-MNIST, KMNIST as their authors or Debian ship them."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from munkey.data.pictures import as_rgb
from munkey.data.registry import dataset
from munkey.data.source import Source, SourceError, unreadable
from munkey.data.splits import held_out
from munkey.settings import SourceSettings

BLOCK = 4096  # images


@dataclass(frozen=True)
class Part:
    """The two files of the training or test part."""

    images: Path
    labels: Path

    @classmethod
    def under(cls, root: Path, prefix: str) -> "Part":
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
    train, test = Part.under(root, "train"), Part.under(root, "t10k")
    files = [train.images, train.labels, test.images, test.labels]
    if absent := [f"{file}[.gz] is missing" for file in files if not file.exists()]:
        raise SourceError(f"source.path = {root}", absent)
    train_labels, test_labels = (np.concatenate(list(_read(part.labels, 1))) for part in (train, test))
    labels = np.concatenate([train_labels, test_labels]).astype(np.int64)
    return Source(
        images=_images([train.images, test.images]),
        labels=labels,
        splits=np.concatenate([np.full(len(train_labels), "train"), held_out("idx", len(test_labels))]),
        classes=[str(label) for label in range(int(labels.max()) + 1)],
    )


def _images(paths: list[Path]) -> Iterator[np.ndarray]:
    """Blocks of (n, H, W, 3) uint8 of all files."""
    for path in paths:
        for block in _read(path, 3):
            yield as_rgb(block, str(path))


def _read(path: Path, dimensions: int) -> Iterator[np.ndarray]:
    """Blocks along the first axis of a file of unsigned bytes. Raises SourceError where it is not whole."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield from _blocks(stream, path, dimensions)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise unreadable(path, f"truncated or not gzip ({error})") from error


def _blocks(stream: BufferedIOBase, path: Path, dimensions: int) -> Iterator[np.ndarray]:
    """Blocks of an open file, unpacked: a magic number, the lengths of its dimensions, and the bytes."""
    if stream.read(4) != bytes([0, 0, 8, dimensions]):
        raise unreadable(path, f"is not an IDX file of unsigned bytes in {dimensions} dimensions")
    lengths = stream.read(4 * dimensions)
    if len(lengths) < 4 * dimensions:
        raise unreadable(path, "ends too early")
    shape = np.frombuffer(lengths, ">u4").astype(int)
    row = int(np.prod(shape[1:]))
    for start in range(0, shape[0], BLOCK):
        count = min(BLOCK, int(shape[0]) - start)
        data = stream.read(count * row)
        if len(data) < count * row:
            raise unreadable(path, "ends too early")
        yield np.frombuffer(data, np.uint8).reshape(count, *shape[1:])
    if stream.read(1):  # at the end of a gzip file its checksum is compared, and only there
        raise unreadable(path, "holds more than its header says")
