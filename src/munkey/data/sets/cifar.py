"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), read by torchvision."""

from typing import Protocol

import numpy as np

from munkey.data.download import FOLDER, PublishedFile
from munkey.data.registry import dataset
from munkey.data.source import Source
from munkey.data.splits import expect, held_out
from munkey.settings import SourceSettings


class Part(Protocol):
    """torchvision's training or test images. data: (n, 32, 32, 3) uint8; targets: labels; classes: their names."""

    data: np.ndarray
    targets: list[int]
    classes: list[str]


class Reader(Protocol):
    """torchvision's class for one of the data sets. url, filename, tgz_md5: of its archive."""

    url: str
    filename: str
    tgz_md5: str

    def __call__(self, root: str, *, train: bool, download: bool) -> Part: ...


@dataset("cifar10", "CIFAR-10: 50,000 / 4,000 / 6,000 images, 32x32 px, 10 classes", train=50_000)
def cifar10(settings: SourceSettings) -> Source:
    from torchvision.datasets import CIFAR10

    return _read("cifar10", CIFAR10, "170,498,071 bytes")


@dataset("cifar100", "CIFAR-100: 50,000 / 4,000 / 6,000 images, 32x32 px, 100 classes", train=50_000)
def cifar100(settings: SourceSettings) -> Source:
    from torchvision.datasets import CIFAR100

    return _read("cifar100", CIFAR100, "169,001,437 bytes")


def _read(name: str, reader: Reader, size: str) -> Source:
    """Read a data set, downloading it first if need be. size: of its archive, in words, for the message."""
    try:
        train, test = (reader(str(FOLDER), train=part, download=True) for part in (True, False))
    except (OSError, RuntimeError) as error:
        raise PublishedFile(reader.url, reader.filename, reader.tgz_md5, size).missing() from error
    source = combine(name, train, test)
    expect(name, source.splits, train=50_000, val=4_000, test=6_000)
    return source


def combine(name: str, train: Part, test: Part) -> Source:
    """torchvision's two parts as one source; the test part is split 40 / 60 into val and test (app. B.1)."""
    return Source(
        images=[train.data, test.data],
        labels=np.array([*train.targets, *test.targets], dtype=np.int64),
        splits=np.concatenate([np.full(len(train.data), "train"), held_out(name, len(test.data))]),
        classes=list(train.classes),
    )
