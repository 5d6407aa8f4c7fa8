"""NPZ archives in the MedMNIST layout: {train,val,test}_images and _labels, read block by block."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from munkey.data import SPLITS, Source, SourceError, dataset
from munkey.data.pictures import as_rgb
from munkey.data.splits import held_out
from munkey.files import DamagedFileError

if TYPE_CHECKING:
    from munkey.params import SourceParams

BLOCK = 64 * 2**20  # bytes read at once


@dataset("npz", "your own NPZ file in the MedMNIST layout", needs_path=True)
def npz(source: "SourceParams") -> Source:
    return read_archive(Path(str(source.path)))


def read_archive(
    path: Path, parts: dict[str, str] | None = None, classes: list[str] | None = None, val: int | None = None
) -> Source:
    """A source from an archive. parts: which of its parts serve as which; by default those that it has.

    Without a val part, `val` samples of the part that serves as test become val, by default 40 %. Raises SourceError
    that lists what is wrong.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            parts = parts or {s: s for s in SPLITS if f"{s}_images.npy" in names}
            _require(path, names, parts)
            labels = {s: _labels(archive, part) for s, part in parts.items()}
    except zipfile.BadZipFile as error:
        raise DamagedFileError(path, f"not an NPZ archive ({error})") from error
    splits = {split: np.full(len(found), split) for split, found in labels.items()}
    if "val" not in parts:
        splits["test"] = held_out(path.stem, len(labels["test"]), val)
    everything = np.concatenate(list(labels.values()))
    count = int(everything.max(initial=-1)) + 1
    return Source(
        images=_images(path, list(parts.values())),
        labels=everything,
        splits=np.concatenate(list(splits.values())).astype("<U5"),
        classes=classes or [str(label) for label in range(count)],
    )


def _require(path: Path, names: set[str], parts: dict[str, str]) -> None:
    wanted = [
        f"{part}_{what}.npy"
        for part in {"train": "train", "test": "test", **parts}.values()
        for what in ("images", "labels")
    ]
    absent = [name for name in wanted if name not in names]
    if absent:
        raise SourceError(
            f"{path} has not the MedMNIST layout", [f"the array {n.removesuffix('.npy')} is missing" for n in absent]
        )


def _labels(archive: zipfile.ZipFile, part: str) -> np.ndarray:
    with archive.open(f"{part}_labels.npy") as file:
        labels = np.lib.format.read_array(file, allow_pickle=False)
    if labels.size != len(labels) or not np.issubdtype(labels.dtype, np.integer):
        raise SourceError(part, [f"labels must be integers, one an image, not {labels.shape} {labels.dtype}"])
    return labels.reshape(-1).astype(np.int64)


def _images(path: Path, parts: list[str]) -> Iterator[np.ndarray]:
    """Blocks of all parts; raises SourceError at the end that lists what is wrong in any of them."""
    faults: list[str] = []
    with zipfile.ZipFile(path) as archive:
        for part in parts:
            with archive.open(f"{part}_images.npy") as file:
                yield from rgb_blocks(file, f"{path}: {part}_images", faults)
    if faults:
        raise SourceError(f"{path} cannot be used", faults)


def rgb_blocks(file: Any, name: str, faults: list[str]) -> Iterator[np.ndarray]:
    """Blocks of RGB images from an open .npy stream. Blocks that cannot be used, e.g. for NaN, are told in `faults`."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, fortran, dtype = read_header(file)
    if fortran or len(shape) not in (3, 4):
        raise SourceError(name, [f"must be (N, H, W) or (N, H, W, channels) in C order, not {shape}"])
    row = int(np.prod(shape[1:])) * dtype.itemsize
    step = max(1, BLOCK // row)
    for start in range(0, shape[0], step):
        count = min(step, shape[0] - start)
        data = file.read(count * row)
        if len(data) < count * row:
            raise DamagedFileError(name, "ends too early")
        try:
            yield as_rgb(np.frombuffer(data, dtype).reshape(count, *shape[1:]), name, start)
        except SourceError as error:
            faults += error.faults
