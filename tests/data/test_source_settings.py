"""What every data set can be asked for: a limit per class and a storage size."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from munkey.data.registry import DATASETS
from munkey.data.source import SPLITS, Source, SourceError
from munkey.data.source_settings import apply_source_settings
from tests.data.inputs import archive, loaded, settings

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 4, 6, 3), dtype=np.uint8)


def source():
    """Blocks of 5, 5 and 2 images; classes and splits take turns."""
    blocks = [IMAGES[:5], IMAGES[5:10], IMAGES[10:]]
    return Source(
        blocks,
        np.arange(12) % 2,
        np.repeat(SPLITS, 4),
        ["a", "b"],
        [*"abcdefghijkl"],
        [*"ABCDEFGHIJKL"],
    )


def test_a_limit_keeps_the_first_of_each_class_in_each_split():
    limited = apply_source_settings(source(), settings(limit=1))
    assert limited.names == ["a", "b", "e", "f", "i", "j"]
    assert limited.units == ["A", "B", "E", "F", "I", "J"]
    np.testing.assert_array_equal(
        np.concatenate(list(limited.blocks())), IMAGES[[0, 1, 4, 5, 8, 9]]
    )
    assert limited.labels.tolist() == [0, 1] * 3
    assert limited.splits.tolist() == ["train", "train", "val", "val", "test", "test"]


def test_a_limit_for_one_split_leaves_the_others_whole():
    limited = apply_source_settings(source(), settings(limit={"train": 1}))
    assert limited.names == ["a", "b", *"efghijkl"]


def test_val_is_drawn_from_train_and_test_is_whole():
    """Of 60 training samples of each of two classes, a fifth becomes val; units stay together."""
    count = 200
    labels = np.arange(count) % 2
    splits = np.repeat(["train", "val", "test"], [120, 40, 40])
    units = [f"person {number // 4}" for number in range(count)]
    whole = Source([np.zeros((count, 2, 2, 3), np.uint8)], labels, splits, ["a", "b"])
    divided = apply_source_settings(
        whole, settings(shares=[0.6, 0.15, 0.25], val_from="train")
    ).splits
    assert (divided[120:] == "test").all()
    for label in (0, 1):
        assert (divided[:120][labels[:120] == label] == "val").sum() == 12
    by_unit = apply_source_settings(replace(whole, units=units), settings(val_from="train")).splits
    for splits_of_unit in by_unit[:120].reshape(30, 4):
        assert len(set(splits_of_unit)) == 1
    assert 0 < (by_unit == "val").sum() < 60


@pytest.mark.parametrize("reader", ["imagefolder", "csv"])
def test_val_from_train_is_refused_if_all_splits_are_drawn(tmp_path, reader):
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for number in range(4):
            Image.fromarray(IMAGES[number]).save(tmp_path / label / f"{number}.png")
    path = tmp_path
    if reader == "csv":
        path = tmp_path / "table.csv"
        rows = [f"{label}/{number}.png,{label}" for label in ("cat", "dog") for number in range(4)]
        path.write_text("\n".join(["file,label", *rows]))
    with pytest.raises(SourceError, match=r"source\.val_from.*\n.*must be null"):
        DATASETS[reader].load(settings(path, val_from="train"))
    DATASETS[reader].load(settings(path))


def test_only_keeps_some_classes_and_renumbers_them():
    three = replace(source(), labels=np.arange(12) % 3, classes=["a", "b", "c"])
    taken = apply_source_settings(three, settings(only=["c", "a"], limit=1))
    assert taken.classes == ["a", "c"]
    assert taken.labels.tolist() == [0, 1, 1, 0, 1, 0]
    assert taken.names == ["a", "c", "f", "g", "i", "j"]
    assert apply_source_settings(three, settings(only=["c ", "a"])).classes == ["a", "c"]
    with pytest.raises(SourceError, match="'cc'; did you mean 'c'"):
        apply_source_settings(three, settings(only=["cc", "a"]))


def test_a_storage_size_resizes_images_of_any_source(tmp_path):
    images = loaded(apply_source_settings(source(), settings(size=5)), tmp_path).images
    assert images.shape == (12, 5, 5, 3)
    expected = Image.fromarray(IMAGES[7]).resize((5, 5), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(images[7], np.asarray(expected))


def test_settings_without_values_change_nothing():
    unshaped = source()
    assert apply_source_settings(unshaped, settings()) is unshaped


def test_classes_that_are_numbers_can_be_named():
    numbered = replace(source(), classes=["0", "1"])
    with_names = apply_source_settings(numbered, settings(classes=["cat", "dog"]))
    assert with_names.classes == ["cat", "dog"]
    with pytest.raises(SourceError, match=r"3 classes, .* 2 labels"):
        apply_source_settings(numbered, settings(classes=["cat", "dog", "bird"]))
    with pytest.raises(SourceError, match=r"already have names \(a, b"):
        apply_source_settings(source(), settings(classes=["cat", "dog"]))


def test_names_of_classes_that_differ_in_spaces_are_refused(tmp_path):
    archive(tmp_path / "x.npz", {"train": 6, "val": 3, "test": 3})
    named = settings(tmp_path / "x.npz", classes=["cat", "cat ", "dog"])
    with pytest.raises(SourceError, match="two classes are named 'cat'"):
        apply_source_settings(DATASETS["npz"].load(named), named)
