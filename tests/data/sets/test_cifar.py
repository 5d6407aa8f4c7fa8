"""CIFAR as torchvision reads it: two parts become one source."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from torchvision.datasets import CIFAR10, CIFAR100

from munkey.data.download import MissingDataError
from munkey.data.registry import DATASETS
from munkey.data.sets import cifar
from munkey.data.sets.cifar import add_superclasses, combine
from munkey.data.sizes import SIZES, Size
from munkey.data.source import Source
from tests.data.inputs import counts, settings

BOTH = pytest.mark.parametrize(
    ("name", "published"), [("cifar10", CIFAR10), ("cifar100", CIFAR100)]
)


def test_cifar_s_two_parts_are_one_source():
    pixels = np.random.default_rng(0).integers(0, 256, (16, 32, 32, 3), dtype=np.uint8)
    train = SimpleNamespace(data=pixels[:6], targets=[0, 1] * 3, classes=["cat", "dog"])
    test = SimpleNamespace(data=pixels[6:], targets=[0, 1] * 5)
    source = combine("cifar10", train, test)
    assert counts(source.splits) == [6, 4, 6]
    np.testing.assert_array_equal(np.concatenate(list(source.images))[:6], train.data)


@BOTH
def test_the_archive_is_that_of_torchvision(name, published):
    archive = DATASETS[name].archive()
    assert (archive.url, archive.name, archive.md5) == (
        published.url,
        published.filename,
        published.tgz_md5,
    )


def write_superclasses(folder, train, test):
    """The files of CIFAR-100 that name the superclass of each sample."""
    folder.mkdir(exist_ok=True)
    (folder / "train").write_bytes(pickle.dumps({"coarse_labels": train}))
    (folder / "test").write_bytes(pickle.dumps({"coarse_labels": test}))
    (folder / "meta").write_bytes(pickle.dumps({"coarse_label_names": ["fish", "flowers"]}))


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Has torchvision read six black training images and some white test images, the latter of class `cat`."""
    monkeypatch.setattr(cifar, "FOLDER", tmp_path)

    def patched(name, published, test=10):
        class Small(published):
            def __init__(self, root, train, download):
                assert root == str(tmp_path)
                assert download
                if not test:
                    raise RuntimeError("no network")
                self.data = np.full((6 if train else test, 4, 4, 3), 0 if train else 255, np.uint8)
                self.targets = [1] * 6 if train else [0] * test
                self.classes = ["cat", "dog"]

        monkeypatch.setattr(cifar, "_get_reader", {name: Small}.__getitem__)
        monkeypatch.setitem(SIZES, name, Size(6, 4, 6, 4, 2))
        return DATASETS[name].load(settings())

    return patched


@BOTH
def test_cifars_test_images_are_divided_into_val_and_test(small, tmp_path, name, published):
    write_superclasses(tmp_path / "cifar-100-python", [0] * 6, [1] * 10)
    source = small(name, published)
    assert source.splits[:6].tolist() == ["train"] * 6
    assert counts(source.splits) == [6, 4, 6]
    assert [int(block.max()) for block in source.images] == [0, 255]
    assert (source.labels.tolist(), source.classes) == ([1] * 6 + [0] * 10, ["cat", "dog"])
    assert source.units == (["fish"] * 6 + ["flowers"] * 10 if name == "cifar100" else None)


@BOTH
def test_other_numbers_of_images_are_refused_and_a_missing_archive_is_named(small, name, published):
    with pytest.raises(ValueError, match=f"{name} should have"):
        small(name, published, test=9)
    with pytest.raises(MissingDataError, match=published.filename):
        small(name, published, test=0)


def test_superclasses_are_read_from_the_published_files(tmp_path):
    write_superclasses(tmp_path, [1, 0, 1, 0], [0, 1])
    source = Source(
        np.zeros((6, 2, 2, 3), np.uint8),
        np.array([2, 0, 2, 1, 1, 2]),
        np.array(["train"] * 6),
        ["a", "b", "c"],
    )
    with_units = add_superclasses(source, tmp_path)
    assert with_units.units == ["flowers", "fish", "flowers", "fish", "fish", "flowers"]
    assert with_units.classes == ["a", "b", "c"]


def test_cifar20_has_superclasses_as_classes_and_classes_as_units(monkeypatch):
    fine = Source(
        np.zeros((3, 2, 2, 3), np.uint8),
        np.array([2, 0, 1]),
        np.array(["train"] * 3),
        ["rose", "trout", "tulip"],
    )
    with_units = replace(fine, units=["flowers", "flowers", "fish"])
    monkeypatch.setattr(cifar, "cifar100", lambda settings: with_units)
    coarse = DATASETS["cifar20"].load(settings())
    assert (coarse.labels.tolist(), coarse.classes) == ([1, 1, 0], ["fish", "flowers"])
    assert coarse.units == ["tulip", "rose", "trout"]


@BOTH
def test_a_truncated_archive_is_refused_and_not_changed(monkeypatch, tmp_path, name, published):
    monkeypatch.setattr(cifar, "FOLDER", tmp_path)
    archive = tmp_path / published.filename
    archive.write_bytes(b"the first bytes")
    with pytest.raises(ValueError, match=f"{published.filename} .*md5"):
        DATASETS[name].load(settings())
    assert archive.read_bytes() == b"the first bytes"


@BOTH
def test_unpacked_files_that_are_damaged_are_named(small, tmp_path, name, published):
    (tmp_path / published.base_folder).mkdir()
    with pytest.raises(ValueError, match=f"{published.base_folder} is damaged"):
        small(name, published, test=0)
