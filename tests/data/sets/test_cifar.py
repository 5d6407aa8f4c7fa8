"""CIFAR as torchvision reads it: two parts become one source."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from torchvision.datasets import CIFAR10, CIFAR100

from munkey.data.registry import DATASETS
from munkey.data.sets import cifar
from munkey.data.sets.cifar import combine, with_superclasses
from munkey.data.source import Source
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


def test_superclasses_come_from_the_files_in_their_published_form(tmp_path):
    for name, content in {
        "train": {"coarse_labels": [1, 0, 1, 0]},
        "test": {"coarse_labels": [0, 1]},
        "meta": {"coarse_label_names": ["fish", "flowers"]},
    }.items():
        (tmp_path / name).write_bytes(pickle.dumps(content))
    source = Source(
        np.zeros((6, 2, 2, 3), np.uint8), np.array([2, 0, 2, 1, 1, 2]), np.array(["train"] * 6), ["a", "b", "c"]
    )
    found = with_superclasses(source, tmp_path)
    assert found.units == ["flowers", "fish", "flowers", "fish", "fish", "flowers"] and found.classes == ["a", "b", "c"]


def test_cifar20_has_superclasses_as_classes_and_classes_as_units(monkeypatch):
    fine = Source(
        np.zeros((3, 2, 2, 3), np.uint8), np.array([2, 0, 1]), np.array(["train"] * 3), ["rose", "trout", "tulip"]
    )
    made = replace(fine, units=["flowers", "flowers", "fish"])
    monkeypatch.setattr(cifar, "cifar100", lambda settings: made)
    coarse = DATASETS["cifar20"].load(None)
    assert (coarse.labels.tolist(), coarse.classes) == ([1, 1, 0], ["fish", "flowers"])
    assert coarse.units == ["tulip", "rose", "trout"]
