"""Your own pictures in folders: train/val/test folders of class folders, or class folders that we split."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.data import SPLITS, Source, SourceError, dataset
from munkey.data.pictures import decode, pictures_only
from munkey.data.splits import by_class, held_out

if TYPE_CHECKING:
    from munkey.params import SourceParams


@dataset("imagefolder", "your own pictures: a folder per split and class, or a folder per class", needs_path=True)
def imagefolder(source: "SourceParams") -> Source:
    """Pictures under source.path, in name order.

    With folders `train` and `test` (and `val`, else test is split 40 / 60) their splits stand; otherwise the folder
    holds class folders, split by source.split within each class. source.limit_per_class takes the first of each class
    folder only. Raises SourceError that lists what is wrong.
    """
    root = Path(str(source.path))
    if not root.is_dir():
        raise SourceError(f"source.path = {source.path}", ["there is no such folder"])
    given = [split for split in SPLITS if (root / split).is_dir()]
    folders = {split: root / split for split in given} if {"train", "test"} <= set(given) else {"": root}
    classes = sorted({c.name for f in folders.values() for c in f.iterdir() if c.is_dir()})
    names: list[str] = []
    labels: list[int] = []
    parts: list[str] = []
    faults: list[str] = []
    for part, folder in folders.items():
        for label, name in enumerate(classes):
            found = _pictures(folder / name, source.limit_per_class)
            faults += [] if found else [f"{folder / name}: no picture that Pillow reads"]
            names += found
            labels += [label] * len(found)
            parts += [part] * len(found)
    if faults or not classes:
        raise SourceError(f"source.path = {root}", faults or ["holds no class folders"])
    return Source(
        images=decode(names, lambda name: Path(name).open("rb"), source.storage_size),
        labels=np.array(labels, dtype=np.int64),
        splits=_splits(np.array(parts), np.array(labels), source.split),
        classes=classes,
    )


def _pictures(folder: Path, limit: int | None) -> list[str]:
    if not folder.is_dir():
        return []
    files = sorted(str(path) for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return pictures_only(files)[:limit]


def _splits(parts: np.ndarray, labels: np.ndarray, shares: list[float]) -> np.ndarray:
    if (parts == "").any():
        return by_class("imagefolder", labels, shares)
    splits = parts.astype("<U5")
    if "val" not in parts:
        splits[parts == "test"] = held_out("imagefolder", int((parts == "test").sum()))
    return splits
