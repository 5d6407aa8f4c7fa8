"""Your own pictures in folders: train/val/test folders of class folders, or class folders that we split."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.unit_names import unit_name
from munkey.data.decoding.picture_files import FORMATS
from munkey.data.pictures import decode, is_picture_name, open_plain
from munkey.data.registry import dataset
from munkey.data.source import SPLITS, Source, SourceError, image_faults, printable, readable
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
    with readable(f"source.path = {root}"):
        split_folders = _split_folders(root)
        classes = sorted({path.name for folder in split_folders.values() for path in _visible(folder) if path.is_dir()})
        if not classes:
            raise SourceError(f"source.path = {root}", ["holds no class folders"])
        folders = [
            ClassFolder(folder / name, split, label, _pictures(folder / name)[: settings.limit_per_class])
            for split, folder in split_folders.items()
            for label, name in enumerate(classes)
        ]
    images = _images(root, folders, settings.storage_size)
    counts = [len(folder.files) for folder in folders]
    labels = np.repeat([folder.label for folder in folders], counts)
    splits = [folder.split for folder in folders for _ in folder.files]
    names = [printable(Path(file).relative_to(root).as_posix()) for folder in folders for file in folder.files]
    units = [_unit(settings.units, name) for name in names] if settings.units else None
    return Source(
        images=images,
        labels=labels.astype(np.int64),
        splits=completed("imagefolder", splits, labels, settings.split, units),
        classes=[printable(name) for name in classes],
        names=names,
        units=units,
    )


def _unit(pattern: str, name: str) -> str | None:
    """The group of the pattern in a path; None where there is none."""
    found = re.search(pattern, name)
    return unit_name(found[1]) if found else None


def _split_folders(root: Path) -> dict[str, Path]:
    """The folder of each split, or {UNSPLIT: root} if there is none.

    Raises SourceError if the folder does not exist or holds only some folders of splits.
    """
    if not root.is_dir():
        raise SourceError(f"source.path = {root}", ["there is no such folder"])
    folders = {path.name: path for path in _visible(root) if path.is_dir()}
    if not set(SPLITS) & set(folders):
        return {UNSPLIT: root}
    faults = [f"there is no folder {split!r}" for split in ("train", "test") if split not in folders]
    faults += [f"the folder {name!r} is none of {', '.join(SPLITS)}" for name in folders if name not in SPLITS]
    if faults:
        raise SourceError(f"source.path = {root} holds some folders of splits, but", faults)
    return {split: folders[split] for split in SPLITS if split in folders}


def _images(root: Path, folders: list[ClassFolder], size: int | None) -> Iterator[np.ndarray]:
    """Blocks of all pictures. Raises SourceError if a class folder has none; then it lists unreadable pictures too."""
    images = decode([file for folder in folders for file in folder.files], open_plain, size)
    if faults := [f"{folder.path}: no picture ({', '.join(FORMATS)})" for folder in folders if not folder.files]:
        raise SourceError(f"source.path = {root}", faults + image_faults(images))
    return images


def _pictures(folder: Path) -> list[str]:
    """Pictures anywhere below a folder, in path order. Warns of the number of other files."""
    pictures: list[str] = []
    others: list[str] = []
    for path in sorted(_below(folder), key=str) if folder.is_dir() else []:
        is_special = path.exists() and not path.is_file()  # as a pipe; a broken link is named when it is read
        is_picture = is_picture_name(path.name) and not is_special
        (pictures if is_picture else others).append(str(path))
    if others:
        count = "1 file" if len(others) == 1 else f"{len(others)} files"
        said = f"{folder}: left out {count} without the extension of a picture, or no plain files"
        warn(printable(f"{said}, e.g. {others[0]}"))
    return pictures


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder that are not hidden."""
    for path in _visible(folder):
        if path.is_dir():
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
