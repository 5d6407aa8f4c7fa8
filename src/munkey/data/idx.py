"""The MNIST file format (IDX), gzipped or not: MNIST, Fashion-MNIST, KMNIST as their authors or Debian ship them."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.data import Source, SourceError, dataset
from munkey.data.pictures import as_rgb
from munkey.data.splits import held_out
from munkey.files import DamagedFileError

if TYPE_CHECKING:
    from munkey.params import SourceParams

NAMES = {"train": "train", "test": "t10k"}
BLOCK = 4096  # images


@dataset("idx", "your own folder with MNIST-format files (train-* and t10k-*, .gz or not)", needs_path=True)
def idx(source: "SourceParams") -> Source:
    """Images and labels under source.path; the test part is split 40 / 60 into val and test."""
    root = Path(str(source.path))
    files = {
        s: (_find(root, f"{n}-images-idx3-ubyte"), _find(root, f"{n}-labels-idx1-ubyte")) for s, n in NAMES.items()
    }
    absent = [
        f"{root / f'{n}-{what}'}[.gz] is missing"
        for s, n in NAMES.items()
        for what, path in zip(("images-idx3-ubyte", "labels-idx1-ubyte"), files[s], strict=True)
        if path is None
    ]
    if absent:
        raise SourceError(f"source.path = {root}", absent)
    labels = {split: np.concatenate(list(_read(pair[1], 1))) for split, pair in files.items()}
    everything = np.concatenate([labels["train"], labels["test"]]).astype(np.int64)
    return Source(
        images=_images([files["train"][0], files["test"][0]]),
        labels=everything,
        splits=np.concatenate([np.full(len(labels["train"]), "train"), held_out("idx", len(labels["test"]))]),
        classes=[str(label) for label in range(int(everything.max()) + 1)],
    )


def _find(root: Path, name: str) -> Path | None:
    return next((path for path in (root / name, root / f"{name}.gz") if path.exists()), None)


def _images(paths: list[Path | None]) -> Iterator[np.ndarray]:
    for path in paths:
        for block in _read(path, 3):
            yield as_rgb(block, str(path))


def _read(path: Path | None, dimensions: int) -> Iterator[np.ndarray]:
    """Blocks along the first axis of a file of unsigned bytes."""
    assert path is not None
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            if file.read(4) != bytes([0, 0, 8, dimensions]):
                raise DamagedFileError(path, f"is not an IDX file of unsigned bytes in {dimensions} dimensions")
            shape = np.frombuffer(file.read(4 * dimensions), ">u4").astype(int)
            row = int(np.prod(shape[1:]))
            for start in range(0, shape[0], BLOCK):
                count = min(BLOCK, int(shape[0]) - start)
                data = file.read(count * row)
                if len(data) < count * row:
                    raise DamagedFileError(path, "ends too early")
                yield np.frombuffer(data, np.uint8).reshape(count, *shape[1:])
    except (EOFError, gzip.BadGzipFile) as error:
        raise DamagedFileError(path, f"truncated or not gzip ({error})") from error
