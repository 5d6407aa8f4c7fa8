"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), read by torchvision."""

from typing import TYPE_CHECKING, Any

import numpy as np

from munkey.data import Source, dataset
from munkey.data.download import FOLDER, MissingDataError, missing
from munkey.data.splits import expect, held_out

if TYPE_CHECKING:
    from munkey.params import SourceParams


@dataset("cifar10", "CIFAR-10: 50,000 / 4,000 / 6,000 images, 32x32 px, 10 classes")
def cifar10(source: "SourceParams") -> Source:
    from torchvision.datasets import CIFAR10

    return _read("cifar10", CIFAR10, "170,498,071 bytes")


@dataset("cifar100", "CIFAR-100: 50,000 / 4,000 / 6,000 images, 32x32 px, 100 classes")
def cifar100(source: "SourceParams") -> Source:
    from torchvision.datasets import CIFAR100

    return _read("cifar100", CIFAR100, "169,001,437 bytes")


def _read(name: str, reader: Any, size: str) -> Source:
    try:
        train, test = (reader(str(FOLDER), train=part, download=True) for part in (True, False))
    except (OSError, RuntimeError) as error:
        raise MissingDataError(missing(reader.filename, reader.url, reader.tgz_md5, size)) from error
    found = combine(name, train, test)
    expect(name, found.splits, train=50_000, val=4_000, test=6_000)
    return found


def combine(name: str, train: Any, test: Any) -> Source:
    """torchvision's two parts (data: (n, 32, 32, 3) uint8, targets, classes) as one source; test is split 40 / 60."""
    return Source(
        images=[train.data, test.data],
        labels=np.array([*train.targets, *test.targets], dtype=np.int64),
        splits=np.concatenate([np.full(len(train.data), "train"), held_out(name, len(test.data))]),
        classes=list(train.classes),
    )
