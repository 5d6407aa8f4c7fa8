"""CIFAR as torchvision reads it: two parts become one source."""

from types import SimpleNamespace

import numpy as np
import pytest
from torchvision.datasets import CIFAR10, CIFAR100

from munkey.data.registry import DATASETS
from munkey.data.sets.cifar import combine
from tests.data.inputs import RNG, counts


def test_cifar_s_two_parts_are_one_source():
    parts = [
        SimpleNamespace(data=RNG.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), targets=[i % 2 for i in range(n)])
        for n in (6, 10)
    ]
    parts[0].classes = ["cat", "dog"]
    source = combine("cifar10", *parts)
    assert counts(source.splits) == [6, 4, 6]
    np.testing.assert_array_equal(np.concatenate(list(source.images))[:6], parts[0].data)


@pytest.mark.parametrize(("name", "published"), [("cifar10", CIFAR10), ("cifar100", CIFAR100)])
def test_what_is_downloaded_is_what_torchvision_names(name, published):
    archive = DATASETS[name].archive()
    assert (archive.url, archive.name, archive.md5) == (published.url, published.filename, published.tgz_md5)
