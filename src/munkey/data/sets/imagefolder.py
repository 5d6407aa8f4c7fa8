"""Your own pictures in folders: train/val/test folders of class folders, or class folders that we split."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.unit_names import unit_name
from munkey.data.pictures import BESIDE, decode, is_picture_name, left_out, open_plain, usable
from munkey.data.registry import dataset
from munkey.data.source import SPLITS, Source, SourceError, printable, readable
from munkey.data.splits import completed
from munkey.settings import SourceSettings

UNSPLIT = ""  # stands for the split of pictures whose folders name none


@dataclass(frozen=True)
class ClassFolder:
    """The pictures of one class in one split. files: their paths, in path order."""

    path: Path
    split: str
    label: int
    files: list[str]


@dataset("imagefolder", "your own pictures: a folder per split and class, or a folder per class", needs_path="folder")
def imagefolder(settings: SourceSettings) -> Source:
    """Pictures under source.path, in path order.

    If there are folders `train` and `test` (and `val`, else test is split 40 / 60), these are the splits. If there is
    none of them, source.path holds class folders, which are split by source.split within each class.
    source.limit_per_class takes only the first pictures of each class folder. source.units finds in each path of whom
    or of what the picture is: all of one are then in one split, where pictures are split here.

    Raises SourceError that lists everything wrong.
    """
    root = Path(str(settings.path))
    others: list[Path] = []
    with readable(f"source.path = {root}"):
        split_folders = _split_folders(root)
        classes: set[str] = set()
        for folder in split_folders.values():
            paths = [path for path in _visible(folder) if path.is_dir()]
            classes.update(path.name for path in paths if path.name not in BESIDE)
            others += [path for path in paths if path.name in BESIDE]
        if not classes:
            raise SourceError(f"source.path = {root}", ["holds no class folders"])
        names_of_classes = [_class_name(folder) for folder in sorted(classes)]
        if twice := sorted({name for name in names_of_classes if names_of_classes.count(name) > 1}):
            said = f"two folders are named {twice[0]!r}, in two forms of Unicode: move the pictures into one"
            raise SourceError(f"source.path = {root}", [said])
        folders = [
            ClassFolder(folder / name, split, label, _pictures(folder / name, others)[: settings.limit_per_class])
            for split, folder in split_folders.items()
            for label, name in enumerate(sorted(classes))
        ]
    if others:
        warn(f"{root}: {left_out(others)}")
    if settings.on_bad == "skip":
        folders = _without_bad(folders, settings.white)
    files = [file for folder in folders for file in folder.files]
    counts = [len(folder.files) for folder in folders]
    labels = np.repeat([folder.label for folder in folders], counts)
    splits = [folder.split for folder in folders for _ in folder.files]
    names = [printable(Path(file).relative_to(root).as_posix()) for file in files]
    units = [_unit(settings.units, name) for name in names] if settings.units else None
    return Source(
        images=decode(files, open_plain, settings.storage_size, settings.white),
        labels=labels.astype(np.int64),
        splits=completed("imagefolder", splits, labels, settings.split, units),
        classes=names_of_classes,
        names=names,
        units=units,
    )


def _class_name(folder: str) -> str:
    """The name of a class as people type it: a Mac takes its letters apart."""
    return unicodedata.normalize("NFC", printable(folder))


def _unit(pattern: str, name: str) -> str | None:
    """The group of the pattern in a path; None where there is none. Letters match in any form of Unicode."""
    found = re.search(unicodedata.normalize("NFC", pattern), unicodedata.normalize("NFC", name))
    return unit_name(found[1]) if found else None


def _split_folders(root: Path) -> dict[str, Path]:
    """The folder of each split, or {UNSPLIT: root} if there is none.

    Raises SourceError if the folder does not exist or holds only some folders of splits.
    """
    if not root.is_dir():
        raise SourceError(f"source.path = {root}", ["there is no such folder"])
    folders = {path.name: path for path in _visible(root) if path.is_dir() and path.name not in BESIDE}
    if not set(SPLITS) & set(folders):
        return {UNSPLIT: root}
    faults = [f"there is no folder {split!r}" for split in ("train", "test") if split not in folders]
    faults += [f"the folder {name!r} is none of {', '.join(SPLITS)}" for name in folders if name not in SPLITS]
    if faults:
        raise SourceError(f"source.path = {root} holds some folders of splits, but", faults)
    return {split: folders[split] for split in SPLITS if split in folders}


def _without_bad(folders: list[ClassFolder], white: int | None) -> list[ClassFolder]:
    """The folders without pictures that cannot be read."""
    is_usable = iter(usable([file for folder in folders for file in folder.files], open_plain, white))
    return [replace(folder, files=[file for file in folder.files if next(is_usable)]) for folder in folders]


def _pictures(folder: Path, others: list[Path]) -> list[str]:
    """Pictures anywhere below a folder, in path order. What else is there is added to `others`."""
    pictures: list[str] = []
    for path in sorted(_below(folder), key=str) if folder.is_dir() else []:
        is_special = path.exists() and not path.is_file()  # as a pipe; a broken link is named when it is read
        if is_picture_name(path.name) and not is_special:
            pictures.append(str(path))
        else:
            others.append(path)
    return pictures


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder that are not hidden, and folders that are not looked into."""
    for path in _visible(folder):
        if path.is_dir() and path.name not in BESIDE:
            yield from _below(path)
        else:
            yield path


def _visible(folder: Path) -> list[Path]:
    """What a folder holds that is not hidden. Raises SourceError for a link back to a folder that it lies in."""
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for link in filter(Path.is_symlink, paths):
        if link.resolve() in [above.resolve() for above in link.absolute().parents]:
            raise SourceError(str(folder), [f"{link}: is a link back to {link.resolve()}, a folder that it lies in"])
    return paths
