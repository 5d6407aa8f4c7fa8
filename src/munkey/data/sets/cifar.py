"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), read by torchvision."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from munkey.data.download import FOLDER, PublishedFile
from munkey.data.registry import dataset
from munkey.data.source import Source
from munkey.data.splits import expect, held_out
from munkey.settings import SourceSettings

if TYPE_CHECKING:
    from torchvision.datasets import CIFAR10

BYTES = {"cifar10": "170,498,071 bytes", "cifar100": "169,001,437 bytes"}  # of the archives


def _archive(name: str) -> PublishedFile:
    reader = _reader(name)
    return PublishedFile(reader.url, reader.filename, reader.tgz_md5, BYTES[name], reader.base_folder)


def _reader(name: str) -> "type[CIFAR10]":
    """Torchvision's class for one of the data sets, of which that of CIFAR-100 is a CIFAR10 too."""
    from torchvision import datasets

    return getattr(datasets, name.upper())


@dataset(
    "cifar10",
    "CIFAR-10: 50,000 / 4,000 / 6,000 images, 32x32 px, 10 classes",
    archive=partial(_archive, "cifar10"),
)
def cifar10(settings: SourceSettings) -> Source:
    return _read("cifar10")


@dataset(
    "cifar100",
    "CIFAR-100: 50,000 / 4,000 / 6,000 images, 32x32 px, 100 classes",
    archive=partial(_archive, "cifar100"),
)
def cifar100(settings: SourceSettings) -> Source:
    return _read("cifar100")


def _read(name: str) -> Source:
    """Read a data set, downloading it first if need be."""
    try:
        train, test = (_reader(name)(str(FOLDER), train=part, download=True) for part in (True, False))
    except (OSError, RuntimeError) as error:
        raise _archive(name).missing() from error
    source = combine(name, train, test)
    expect(name, source.splits)
    return source


def combine(name: str, train: "CIFAR10", test: "CIFAR10") -> Source:
    """torchvision's two parts as one source; the test part is split 40 / 60 into val and test (app. B.1)."""
    return Source(
        images=[train.data, test.data],
        labels=np.array([*train.targets, *test.targets], dtype=np.int64),
        splits=np.concatenate([np.full(len(train.data), "train"), held_out(name, len(test.data))]),
        classes=list(train.classes),
    )
