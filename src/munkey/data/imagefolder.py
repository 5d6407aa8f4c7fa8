"""Your own pictures in folders: train/val/test folders of class folders, or class folders that we split."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from munkey.data import SPLITS, Source, SourceError, dataset, image_faults
from munkey.data.pictures import decode, pictures_only
from munkey.data.splits import by_class, held_out
from munkey.runtime import warn

if TYPE_CHECKING:
    from munkey.params import SourceParams


@dataset("imagefolder", "your own pictures: a folder per split and class, or a folder per class", needs_path=True)
def imagefolder(source: "SourceParams") -> Source:
    """Pictures under source.path, in name order.

    With folders `train` and `test` (and `val`, else test is split 40 / 60) their splits stand; with none of them the
    folder holds class folders, split by source.split within each class. source.limit_per_class takes the first of each
    class folder only. Raises SourceError that lists what is wrong.
    """
    root = Path(str(source.path))
    folders = _parts(root)
    classes = sorted({c.name for f in folders.values() for c in _visible(f) if c.is_dir()})
    if not classes:
        raise SourceError(f"source.path = {root}", ["holds no class folders"])
    names: list[str] = []
    labels: list[int] = []
    parts: list[str] = []
    faults: list[str] = []
    for part, folder in folders.items():
        for label, name in enumerate(classes):
            found = _pictures(folder / name)[: source.limit_per_class]
            faults += [] if found else [f"{folder / name}: no picture that Pillow reads"]
            names += found
            labels += [label] * len(found)
            parts += [part] * len(found)
    images = decode(names, _open, source.storage_size)
    if faults:
        raise SourceError(f"source.path = {root}", faults + image_faults(images))
    return Source(
        images=images,
        labels=np.array(labels, dtype=np.int64),
        splits=_splits(np.array(parts), np.array(labels), source.split),
        classes=classes,
        names=[Path(name).relative_to(root).as_posix() for name in names],
    )


def _open(name: str) -> IO[bytes]:
    return Path(name).open("rb")


def _parts(root: Path) -> dict[str, Path]:
    """The folder of each split; {"": root} for class folders that we split. Raises SourceError where it is unclear."""
    if not root.is_dir():
        raise SourceError(f"source.path = {root}", ["there is no such folder"])
    folders = {path.name: path for path in _visible(root) if path.is_dir()}
    if not set(SPLITS) & set(folders):
        return {"": root}
    faults = [f"there is no folder {split!r}" for split in ("train", "test") if split not in folders]
    faults += [f"the folder {name!r} is none of {', '.join(SPLITS)}" for name in folders if name not in SPLITS]
    if faults:
        raise SourceError(f"source.path = {root} holds some folders of splits, but", faults)
    return {split: folders[split] for split in SPLITS if split in folders}


def _pictures(folder: Path) -> list[str]:
    """Pictures anywhere below a folder, in path order; other files are counted in a warning."""
    files = sorted(str(path) for path in _below(folder)) if folder.is_dir() else []
    pictures = pictures_only(files)
    if others := sorted(set(files) - set(pictures)):
        warn(f"{folder}: {len(others)} files are no pictures by their ending and are left out, e.g. {others[0]}")
    return pictures


def _below(folder: Path) -> Iterator[Path]:
    for path in _visible(folder):
        if path.is_dir():
            yield from _below(path)
        else:
            yield path


def _visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _splits(parts: np.ndarray, labels: np.ndarray, shares: list[float]) -> np.ndarray:
    if (parts == "").any():
        return by_class("imagefolder", labels, shares)
    splits = parts.astype("<U5")
    if "val" not in parts:
        splits[parts == "test"] = held_out("imagefolder", int((parts == "test").sum()))
    return splits
