"""Your own pictures in folders: class folders, within train/val/test folders or split here."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.data.intake.unit_names import unit_name
from munkey.data.pictures import (
    BESIDE,
    decode,
    is_picture_name,
    open_plain,
    skipped_files_warning,
    usable,
)
from munkey.data.registry import dataset
from munkey.data.source import SPLITS, Source, SourceError, printable, readable
from munkey.data.splits import UNSPLIT, completed
from munkey.settings import SourceSettings


@dataclass(frozen=True)
class ClassFolder:
    """The pictures of one class in one split. files: their paths, in path order."""

    path: Path
    split: str
    label: int
    files: list[str]


@dataset(
    "imagefolder",
    "your own pictures: a folder per split and class, or a folder per class",
    needs_path="folder",
)
def imagefolder(settings: SourceSettings) -> Source:
    """Pictures under source.path, in path order.

    Folders `train` and `test` (and `val`, else test is split 40 / 60, or train with
    source.val_from) are the splits. Without them,
    source.path holds class folders, and source.split divides each class. source.limit_per_class
    takes only the first pictures of each class folder. source.units is a pattern that finds the
    unit in each path; pictures that are split here are split so that those of a unit stay together.

    Raises SourceError that lists all faults.
    """
    root = Path(str(settings.path))
    others: list[Path] = []
    with readable(f"source.path = {root}"):
        split_folders = _split_folders(root)
        classes = _classes(split_folders.values(), others)
        if not classes:
            raise SourceError(f"source.path = {root}", ["holds no class folders"])
        names_of_classes = [_class_name(folder) for folder in classes]
        repeated = sorted(name for name, count in Counter(names_of_classes).items() if count > 1)
        if repeated:
            fault = f"two folders are named {repeated[0]!r}, in two forms of Unicode: move the pictures into one"
            raise SourceError(f"source.path = {root}", [fault])
        folders = []
        for split, folder in split_folders.items():
            for label, name in enumerate(classes):
                pictures = _pictures(folder / name, others)[: settings.limit_of(split)]
                folders.append(ClassFolder(folder / name, split, label, pictures))
    if others:
        warn(f"{root}: {skipped_files_warning(others)}")
    if settings.on_bad == "skip":
        folders = _without_bad(folders, settings.white)
    files: list[str] = []
    splits: list[str] = []
    label_list: list[int] = []
    for class_folder in folders:
        files += class_folder.files
        splits += [class_folder.split] * len(class_folder.files)
        label_list += [class_folder.label] * len(class_folder.files)
    labels = np.array(label_list, dtype=np.int64)
    names = [printable(Path(file).relative_to(root).as_posix()) for file in files]
    units = None
    if settings.units:
        units = [_unit(settings.units, name) for name in names]
    return Source(
        images=decode(files, open_plain, settings.storage_size, settings.white),
        labels=labels,
        splits=completed("imagefolder", splits, labels, settings.split, units),
        classes=names_of_classes,
        names=names,
        units=units,
    )


def _classes(folders: Iterable[Path], others: list[Path]) -> list[str]:
    """The names of the class folders in all splits, sorted. Other folders are added to `others`."""
    classes = set()
    for folder in folders:
        for path in _visible(folder):
            if not path.is_dir():
                continue
            if path.name in BESIDE:
                others.append(path)
            else:
                classes.add(path.name)
    return sorted(classes)


def _class_name(folder: str) -> str:
    """The name of a class as people type it: a Mac takes its letters apart."""
    return unicodedata.normalize("NFC", printable(folder))


def _unit(pattern: str, name: str) -> str | None:
    """The pattern's group in a path, or None. Letters match in any form of Unicode."""
    match = re.search(unicodedata.normalize("NFC", pattern), unicodedata.normalize("NFC", name))
    if match is None:
        return None
    return unit_name(match[1])


def _split_folders(root: Path) -> dict[str, Path]:
    """The folder of each split, or {UNSPLIT: root} if there is none.

    Raises SourceError if the folder does not exist or holds only some folders of splits.
    """
    if not root.is_dir():
        raise SourceError(f"source.path = {root}", ["there is no such folder"])
    folders = {}
    for path in _visible(root):
        if path.is_dir() and path.name not in BESIDE:
            folders[path.name] = path
    if not set(SPLITS) & set(folders):
        return {UNSPLIT: root}
    faults = []
    for split in ("train", "test"):
        if split not in folders:
            faults.append(f"there is no folder {split!r}")
    for name in folders:
        if name not in SPLITS:
            faults.append(f"the folder {name!r} is none of {', '.join(SPLITS)}")
    if faults:
        raise SourceError(f"source.path = {root} holds some folders of splits, but", faults)
    return {split: folders[split] for split in SPLITS if split in folders}


def _without_bad(folders: list[ClassFolder], white: int | None) -> list[ClassFolder]:
    """The folders without pictures that cannot be read."""
    files = [file for folder in folders for file in folder.files]
    is_usable = usable(files, open_plain, white)
    remaining = []
    start = 0
    for folder in folders:
        flags = is_usable[start : start + len(folder.files)]
        remaining.append(replace(folder, files=list(compress(folder.files, flags))))
        start += len(folder.files)
    return remaining


def _pictures(folder: Path, others: list[Path]) -> list[str]:
    """Pictures anywhere below a folder, in path order. All other files are added to `others`."""
    pictures: list[str] = []
    if not folder.is_dir():
        return pictures
    for path in sorted(_below(folder), key=str):
        # as a pipe; a broken link is named when it is read
        is_special = path.exists() and not path.is_file()
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
    """The entries of a folder that are not hidden.

    Raises SourceError for a link back to a parent folder.
    """
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for link in filter(Path.is_symlink, paths):
        if link.resolve() in [above.resolve() for above in link.absolute().parents]:
            raise SourceError(
                str(folder),
                [f"{link}: is a link back to {link.resolve()}, a folder that it lies in"],
            )
    return paths
