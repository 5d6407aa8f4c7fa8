"""A data set's prepared form reads back as its source; what is wrong with a source is said."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munkey import data
from munkey.data import DATASETS, SPLITS, Source, rows_of
from munkey.files import DamagedFileError


@pytest.fixture
def source():
    """Two samples of each of two classes in every split."""
    images = np.random.default_rng(0).integers(0, 256, (12, 4, 5, 3), dtype=np.uint8)
    return Source(images, np.arange(12) % 2, np.repeat(SPLITS, 4), ["cat", "dog"])


def test_what_is_prepared_reads_back(source, tmp_path):
    data.prepare(source, tmp_path)
    dataset = data.load(tmp_path)
    np.testing.assert_array_equal(dataset.images, source.images)
    np.testing.assert_array_equal(dataset.labels, source.labels)
    np.testing.assert_array_equal(dataset.splits, source.splits)
    assert dataset.ids.tolist() == list(range(12))
    assert dataset.classes == ["cat", "dog"]
    assert dataset.ids_of("val").tolist() == [4, 5, 6, 7]


def test_images_are_mapped_and_cannot_be_changed(source, tmp_path):
    data.prepare(source, tmp_path)
    images = data.load(tmp_path).images
    assert isinstance(images, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        images[0] = 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda s: {"images": s.images.astype(np.float32)}, r"\(12, 4, 5, 3\) float32"),
        (lambda s: {"images": s.images[..., 0]}, r"must be \(N, H, W, 3\) uint8, not \(12, 4, 5\)"),
        (lambda s: {"images": s.images[:11]}, "11 images, 12 labels and 12 splits"),
        (lambda s: {"labels": s.labels + 1}, "labels run from 1 to 2, but there are 2 classes"),
        (lambda s: {"labels": s.labels - 1}, "labels run from -1 to 0"),
        (lambda s: {"labels": np.where(s.splits == "val", 0, s.labels)}, "no image of class 'dog' in split 'val'"),
        (lambda s: {"splits": np.where(s.splits == "test", "val", s.splits)}, "'cat' in split 'test'"),
        (lambda s: {"splits": np.where(np.arange(12) == 0, "trian", s.splits)}, "not test, train, trian, val"),
    ],
)
def test_what_is_wrong_with_a_source_is_said_and_nothing_is_written(source, tmp_path, fault, said):
    with pytest.raises(ValueError, match=said):
        data.prepare(replace(source, **fault(source)), tmp_path / "prepared")
    assert not list(tmp_path.glob("prepared/*"))


def test_truncated_images_are_named(source, tmp_path):
    data.prepare(source, tmp_path)
    path = tmp_path / "images.npy"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DamagedFileError, match=r"images\.npy.*Delete this file"):
        data.load(tmp_path)


def test_images_and_samples_must_be_equal_in_number(source, tmp_path):
    data.prepare(source, tmp_path)
    np.save(tmp_path / "images.npy", source.images[:10])
    with pytest.raises(DamagedFileError, match=r"images\.npy: holds 10 images, samples\.csv 12"):
        data.load(tmp_path)


@given(st.sets(st.integers(-50, 50)), st.lists(st.integers(-50, 50)))
def test_rows_of_ids_point_at_these_ids_or_there_is_an_error(held, asked):
    ids = np.array(sorted(held), dtype=np.int64)
    if set(asked) <= held:
        assert ids[rows_of(ids, np.array(asked, dtype=np.int64))].tolist() == asked
    else:
        unknown = [i for i in asked if i not in held]
        with pytest.raises(KeyError, match=f"{len(unknown)} sample ids are unknown here, e.g. \\[{unknown[0]}"):
            rows_of(ids, np.array(asked, dtype=np.int64))


def test_rows_keep_the_shape_asked_for():
    assert rows_of(np.array([2, 4, 6]), np.array([[6, 2], [4, 4]])).tolist() == [[2, 0], [1, 1]]


def test_the_digits_are_all_there_in_fixed_splits_of_60_15_25_percent(tmp_path):
    digits, again = DATASETS["digits"].load(None), DATASETS["digits"].load(None)
    assert digits.images.shape == (1797, 8, 8, 3)
    assert {split: int((digits.splits == split).sum()) for split in SPLITS} == {"train": 1078, "val": 270, "test": 449}
    np.testing.assert_array_equal(digits.splits, again.splits)
    data.prepare(digits, tmp_path)


def test_the_digits_keep_their_greys():
    from sklearn.datasets import load_digits

    digits, original = DATASETS["digits"].load(None), load_digits()
    np.testing.assert_allclose(digits.images[..., 1] / 255, original.images / 16, atol=0.5 / 255)
    np.testing.assert_array_equal(digits.labels, original.target)
