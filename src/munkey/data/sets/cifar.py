"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), read by torchvision.

CIFAR-20 has CIFAR-100's superclasses as labels.
"""

import hashlib
import pickle
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.core.files import atomic
from munkey.data.download import FOLDER, PublishedFile
from munkey.data.registry import dataset
from munkey.data.source import Source, SourceError, reraise_as_source_error
from munkey.data.splits import require_published_sizes, split_held_out
from munkey.settings import SourceSettings

if TYPE_CHECKING:
    from torchvision.datasets import CIFAR10

ARCHIVE_SIZES = {"cifar10": "170,498,071 bytes", "cifar100": "169,001,437 bytes"}


def _make_archive(name: str) -> PublishedFile:
    reader = _get_reader(name)
    return PublishedFile(
        url=reader.url,
        name=reader.filename,
        md5=reader.tgz_md5,
        size=ARCHIVE_SIZES[name],
        unpacked=reader.base_folder,
    )


def _get_reader(name: str) -> "type[CIFAR10]":
    """Return torchvision's class for a data set. CIFAR100 is a subclass of CIFAR10."""
    from torchvision import datasets

    return getattr(datasets, name.upper())


@dataset(
    "cifar10",
    "CIFAR-10: 50,000 / 4,000 / 6,000 images, 32x32 px, 10 classes",
    archive=partial(_make_archive, "cifar10"),
)
def cifar10(settings: SourceSettings) -> Source:
    _unpack_own_copy("cifar10", settings)
    return _read("cifar10")


@dataset(
    "cifar100",
    "CIFAR-100: 50,000 / 4,000 / 6,000 images, 32x32 px, 100 classes; units: its 20 superclasses",
    archive=partial(_make_archive, "cifar100"),
)
def cifar100(settings: SourceSettings) -> Source:
    _unpack_own_copy("cifar100", settings)
    return add_superclasses(_read("cifar100"), FOLDER / "cifar-100-python")


@dataset(
    "cifar20",
    "CIFAR-100 with its 20 superclasses as classes; units: its 100 classes, for subclass unlearning",
    archive=partial(_make_archive, "cifar100"),
)
def cifar20(settings: SourceSettings) -> Source:
    source = cifar100(settings)
    assert source.units is not None, "cifar100 sets units"
    superclasses = [str(unit) for unit in source.units]
    classes, labels = np.unique(superclasses, return_inverse=True)
    units = [source.classes[label] for label in source.labels]
    return replace(source, labels=labels.astype(np.int64), classes=classes.tolist(), units=units)


def add_superclasses(source: Source, folder: Path) -> Source:
    """Set each CIFAR-100 sample's unit to its superclass, read from the published files."""
    contents = {}
    for name in ("train", "test", "meta"):
        # A pickle can run code, but `_read` had torchvision check the md5 of these files.
        contents[name] = pickle.loads((folder / name).read_bytes(), encoding="latin1")
    labels = [*contents["train"]["coarse_labels"], *contents["test"]["coarse_labels"]]
    names = contents["meta"]["coarse_label_names"]
    return replace(source, units=[names[label] for label in labels])


def _unpack_own_copy(name: str, settings: SourceSettings) -> None:
    """Unpack the user's own copy where torchvision expects the files.

    They must be the published ones, because pickles can run code. Raises SourceError, which lists
    all missing and different files.
    """
    if settings.md5 is None:
        return
    path = _make_archive(name).obtain(own_md5=settings.md5)
    reader = _get_reader(name)
    published_md5 = dict([*reader.train_list, *reader.test_list])
    published_md5[reader.meta["filename"]] = reader.meta["md5"]
    contents = {}
    with reraise_as_source_error(str(path)), tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file and Path(member.name).name in published_md5:
                contents[Path(member.name).name] = file.read()
    faults = []
    for file_name, md5 in published_md5.items():
        if file_name not in contents:
            faults.append(f"{file_name} is missing")
        elif hashlib.md5(contents[file_name], usedforsecurity=False).hexdigest() != md5:
            faults.append(f"{file_name}: its md5 is not that of the published file, {md5}")
    if faults:
        raise SourceError(f"{path} cannot be used", faults)
    for file_name, content in contents.items():
        with atomic(FOLDER / reader.base_folder / file_name) as temporary:
            temporary.write_bytes(content)


def _read(name: str) -> Source:
    """Read a data set, after downloading it if necessary.

    A damaged archive is refused first, because torchvision would overwrite it. Raises ValueError
    for damaged files, and MissingDataError if the archive cannot be downloaded.
    """
    archive = _make_archive(name)
    path = FOLDER / archive.name
    if path.exists() and not _is_unpacked(name):
        archive.obtain(FOLDER)
    try:
        train = _get_reader(name)(str(FOLDER), train=True, download=True)
        test = _get_reader(name)(str(FOLDER), train=False, download=True)
    except (OSError, RuntimeError) as error:
        unpacked_folder = FOLDER / str(archive.unpacked)
        if unpacked_folder.exists():
            raise ValueError(
                f"{unpacked_folder} is damaged: a file in it is missing or not the published one. Move"
                " the folder elsewhere and run again; without internet access, first put the archive"
                f" {archive.url} there as {path}"
            ) from error
        raise archive.make_missing_file_error() from error
    source = combine(name, train, test)
    require_published_sizes(name, source.splits)
    return source


def _is_unpacked(name: str) -> bool:
    """Return whether all unpacked files exist with the right md5, as torchvision checks them."""
    from torchvision.datasets.utils import check_integrity

    reader = _get_reader(name)
    folder = FOLDER / reader.base_folder
    files = [*reader.train_list, *reader.test_list]  # pairs of name and md5
    return all(check_integrity(str(folder / file), md5) for file, md5 in files)


def combine(name: str, train: "CIFAR10", test: "CIFAR10") -> Source:
    """Combine torchvision's two parts. Test is split 40 / 60 into val and test (app. B.1)."""
    train_splits = np.full(len(train.data), "train")
    test_splits = split_held_out(name, len(test.data))
    return Source(
        images=[train.data, test.data],
        labels=np.array([*train.targets, *test.targets], dtype=np.int64),
        splits=np.concatenate([train_splits, test_splits]),
        classes=list(train.classes),
    )
