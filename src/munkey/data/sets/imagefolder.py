"""Your own pictures in folders: class folders, within train/val/test folders or split here."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np

from munkey.core.console import pluralize, warn
from munkey.data.decoding.picture_files import White
from munkey.data.intake.unit_names import normalize_name, unit_name
from munkey.data.pictures import (
    are_readable,
    decode,
    format_skipped_files_warning,
    is_picture_name,
    is_skipped_folder,
    list_pictures,
    list_visible,
    open_regular_file,
)
from munkey.data.registry import dataset
from munkey.data.sizes import get_class_limit
from munkey.data.source import (
    SPLIT_NAMES,
    SPLITS,
    Source,
    SourceError,
    escape_undecodable,
    find_split,
    reraise_as_source_error,
)
from munkey.data.splits import UNSPLIT, complete_splits, require_given_splits
from munkey.settings import SourceSettings


@dataclass(frozen=True)
class ClassFolder:
    """The pictures of one class in one split.

    Attributes
    ----------
    files
        Their paths, in path order.
    """

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
    """Read the pictures under source.path, in path order.

    The splits are folders `train`, `test` and optionally `val`, in upper or lower case; without val,
    test is split 40 / 60 into val and test. If source.path has class folders instead, source.split
    divides each class. Splits that are drawn here keep the pictures of a unit together.

    Raises SourceError if the folders or pictures cannot be used.
    """
    root = Path(str(settings.path))
    with reraise_as_source_error(f"source.path = {root}"):
        classes, folders = _list_folders(root, settings)
    if settings.on_bad == "skip":
        folders = _drop_unreadable(folders, settings.white)
    files = [file for folder in folders for file in folder.files]
    splits = [folder.split for folder in folders for _ in folder.files]
    labels = np.array([folder.label for folder in folders for _ in folder.files], dtype=np.int64)
    require_given_splits(splits, settings.val_from)
    names = [escape_undecodable(Path(file).relative_to(root).as_posix()) for file in files]
    units = None
    if settings.units:
        units = [_find_unit(settings.units, name) for name in names]
    return Source(
        images=decode(files, open_regular_file, settings.storage_size, settings.white),
        labels=labels,
        splits=complete_splits("imagefolder", splits, labels, settings.split, units),
        classes=classes,
        names=names,
        units=units,
    )


def _list_folders(root: Path, settings: SourceSettings) -> tuple[list[str], list[ClassFolder]]:
    """Return the classes, and the folder of each class in each split. Warns of skipped files.

    Raises SourceError if there are no class folders, or if two are of one class.
    """
    split_folders = _find_split_folders(root)
    class_folders, skipped_paths = _list_class_folders(split_folders.values())
    if not class_folders:
        raise SourceError(f"source.path = {root}", ["contains no class folders"])
    classes = [normalize_name(escape_undecodable(folder)) for folder in class_folders]
    _require_distinct_names(root, classes)
    folders = []
    for split, folder in split_folders.items():
        for label, name in enumerate(class_folders):
            pictures, other_files = list_pictures(folder / name)
            skipped_paths += other_files
            pictures = pictures[: get_class_limit(settings, split)]
            folders.append(ClassFolder(folder / name, split, label, pictures))
    _warn_of_loose_pictures(root, {root, *split_folders.values()})
    if skipped_paths:
        warn(f"{root}: {format_skipped_files_warning(skipped_paths)}")
    return classes, folders


def _warn_of_loose_pictures(root: Path, folders: Iterable[Path]) -> None:
    """Warn of pictures beside the class folders, which belong to no class."""
    loose_pictures = []
    for folder in sorted(folders):
        for path in list_visible(folder):
            if path.is_file() and is_picture_name(path.name):
                loose_pictures.append(path)
    if loose_pictures:
        count = pluralize(len(loose_pictures), "picture")
        example = escape_undecodable(str(loose_pictures[0]))
        warn(f"{root}: left out {count} outside the class folders, e.g. {example}")


def _list_class_folders(folders: Iterable[Path]) -> tuple[list[str], list[Path]]:
    """Return the sorted names of class folders in all split folders, and the skipped folders."""
    names = set()
    skipped_folders = []
    for folder in folders:
        for path in list_visible(folder):
            if not path.is_dir():
                continue
            if is_skipped_folder(path):
                skipped_folders.append(path)
            else:
                names.add(path.name)
    return sorted(names), skipped_folders


def _require_distinct_names(root: Path, classes: list[str]) -> None:
    """Raise SourceError if class folders differ only in Unicode form or surrounding spaces."""
    for name, count in sorted(Counter(classes).items()):
        if count > 1:
            fault = (
                f"two folders are named {name!r}, but for the Unicode form or spaces around the name:"
                " move the pictures into one"
            )
            raise SourceError(f"source.path = {root}", [fault])


def _find_unit(pattern: str, name: str) -> str | None:
    """Return the unit in a path, the pattern's group, in any Unicode form, or None."""
    match = re.search(unicodedata.normalize("NFC", pattern), unicodedata.normalize("NFC", name))
    if match is None:
        return None
    return unit_name(match[1])


def _find_split_folders(root: Path) -> dict[str, Path]:
    """Return the folder of each split, or {UNSPLIT: root}. Raises SourceError if some are missing."""
    if not root.is_dir():
        raise SourceError(f"source.path = {root}", ["there is no such folder"])
    folders: dict[str, Path] = {}
    faults = []
    for path in list_visible(root):
        if not path.is_dir() or is_skipped_folder(path):
            continue
        name = find_split(path.name) or path.name
        if name in folders:
            faults.append(f"the folders {folders[name].name!r} and {path.name!r} are both {name!r}")
        folders[name] = path
    if not set(SPLITS) & set(folders):
        return {UNSPLIT: root}
    for split in ("train", "test"):
        if split not in folders:
            faults.append(f"there is no folder {split!r}")
    for name in folders:
        if name not in SPLITS:
            faults.append(f"the folder {name!r} is not one of {', '.join(SPLIT_NAMES)}")
    if faults:
        raise SourceError(f"source.path = {root} has some split folders, but", faults)
    return {split: folders[split] for split in SPLITS if split in folders}


def _drop_unreadable(folders: list[ClassFolder], white: White) -> list[ClassFolder]:
    """Drop pictures that cannot be read."""
    files: list[str] = []
    for folder in folders:
        files += folder.files
    is_readable = are_readable(files, open_regular_file, white)
    readable_folders = []
    start = 0
    for folder in folders:
        end = start + len(folder.files)
        readable_files = list(compress(folder.files, is_readable[start:end]))
        readable_folders.append(replace(folder, files=readable_files))
        start = end
    return readable_folders
