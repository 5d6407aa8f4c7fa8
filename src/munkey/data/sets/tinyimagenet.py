"""Tiny ImageNet (Stanford CS231n): the zip archive or its unpacked folder."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from munkey.data.download import FOLDER, PublishedFile
from munkey.data.pictures import decode, open_regular_file
from munkey.data.registry import dataset
from munkey.data.source import Source, SourceError, reraise_as_source_error
from munkey.data.splits import require_published_sizes, split_held_out
from munkey.settings import SourceSettings

NAME = "tiny-imagenet-200"
ARCHIVE = PublishedFile(
    url=f"http://cs231n.stanford.edu/{NAME}.zip",
    name=f"{NAME}.zip",
    md5="90528d7ca1a48142e341f4ef8d21d0de",
    size="248,100,043 bytes",
    unpacked=NAME,
)


@dataset(
    "tinyimagenet",
    "Tiny ImageNet: 100,000 / 4,000 / 6,000 images, 64x64 px, 200 classes",
    folder=FOLDER / NAME,
    archive=lambda: ARCHIVE,
)
def tinyimagenet(settings: SourceSettings) -> Source:
    """Read train and val. The test images have no labels, so they are not used.

    Val is split 40 / 60 into val and test (app. B.1).
    """
    folder = FOLDER / NAME
    if folder.is_dir():
        source = read_folder(folder)
    else:
        archive = ARCHIVE.obtain(own_md5=settings.md5)
        source = read_zip(archive)
    require_published_sizes("tinyimagenet", source.splits)
    return source


def read_folder(root: Path) -> Source:
    files = [str(path.relative_to(root.parent)) for path in root.rglob("*") if path.is_file()]
    return _make_source(str(root), files, lambda name: open_regular_file(root.parent / name))


def read_zip(path: Path) -> Source:
    with reraise_as_source_error(str(path)):
        archive = zipfile.ZipFile(path)
    return _make_source(str(path), archive.namelist(), archive.open)


def _make_source(place: str, files: list[str], open_file: Callable[[str], IO[bytes]]) -> Source:
    """Read train/CLASS/images/*.JPEG and val/images/*.JPEG. Val's classes are in a separate file."""
    with reraise_as_source_error(place), open_file(f"{NAME}/wnids.txt") as file:
        classes = sorted(file.read().decode().split())
    class_of_val = {}
    with reraise_as_source_error(place), open_file(f"{NAME}/val/val_annotations.txt") as file:
        for line in file.read().decode().splitlines():
            picture_name, class_name = line.split("\t")[:2]  # the rest is a bounding box
            class_of_val[picture_name] = class_name
    train = []
    val = []
    train_classes = []
    val_classes = []
    for name in sorted(files):
        if not name.endswith(".JPEG"):
            continue
        if name.startswith(f"{NAME}/train/"):
            train.append(name)
            train_classes.append(name.split("/")[2])
        elif name.startswith(f"{NAME}/val/"):
            val.append(name)
            val_classes.append(class_of_val.get(name.rsplit("/", 1)[1], ""))
    names = [*train, *val]
    class_names = [*train_classes, *val_classes]
    faults = []
    for name, class_name in zip(names, class_names, strict=True):
        if class_name not in classes:
            faults.append(f"{name}: does not belong to a class of {NAME}")
    if faults:
        raise SourceError(place, faults)
    labels = [classes.index(class_name) for class_name in class_names]
    train_splits = np.full(len(train), "train")
    val_splits = split_held_out("tinyimagenet", len(val))
    return Source(
        images=decode(names, open_file, size=None),
        labels=np.array(labels, dtype=np.int64),
        splits=np.concatenate([train_splits, val_splits]),
        classes=classes,
        names=names,
    )
