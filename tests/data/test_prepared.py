"""A data set's prepared form reads back as its source; what is wrong with a source is reported."""

from dataclasses import replace

import numpy as np
import pytest

from munkey.core.files import DamagedFileError, write_npy
from munkey.data.prepared import load, prepare
from munkey.data.source import SPLITS, Source, SourceError


@pytest.fixture
def source():
    """Two samples of each of two classes in every split."""
    images = np.random.default_rng(0).integers(0, 256, (12, 4, 5, 3), dtype=np.uint8)
    return Source(images, np.arange(12) % 2, np.repeat(SPLITS, 4), ["cat", "dog"])


def test_a_prepared_data_set_reads_back_as_its_source(source, tmp_path):
    prepare(source, tmp_path)
    dataset = load(tmp_path)
    np.testing.assert_array_equal(dataset.images, source.images)
    np.testing.assert_array_equal(dataset.labels, source.labels)
    np.testing.assert_array_equal(dataset.splits, source.splits)
    assert dataset.ids.tolist() == list(range(12))
    assert dataset.classes == ["cat", "dog"]
    assert dataset.get_ids("val").tolist() == [4, 5, 6, 7]


def test_units_read_back_and_only_a_source_with_units_has_their_column(source, tmp_path):
    units = ["Ann", None, "Ärzte, Köln", *["Bo"] * 9]
    prepare(replace(source, names=list("abcdefghijkl"), units=units), tmp_path / "units")
    assert load(tmp_path / "units").units == tuple(units)
    assert (tmp_path / "units/samples.csv").read_text().splitlines()[:3] == [
        "id,split,label,name,unit",
        "0,train,0,a,Ann",
        "1,train,1,b,",
    ]
    prepare(source, tmp_path / "none")
    assert load(tmp_path / "none").units is None
    assert (tmp_path / "none/samples.csv").read_text().splitlines()[0] == "id,split,label"


def test_images_are_mapped_read_only(source, tmp_path):
    prepare(source, tmp_path)
    images = load(tmp_path).images
    assert isinstance(images, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        images[0] = 0


def one_test_image_of_each_class(source):
    splits = np.where(source.splits == "test", "train", source.splits)
    for label in (0, 1):
        first = np.flatnonzero((source.splits == "test") & (source.labels == label))[0]
        splits[first] = "test"
    return splits


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda s: {"images": s.images.astype(np.float32)}, r"\(12, 4, 5, 3\) float32"),
        (
            lambda s: {"images": s.images[..., 0]},
            r"must be \(N, H, W, 3\) uint8, not \(12, 4, 5\)",
        ),
        (
            lambda s: {"images": [s.images[:6], s.images[6:, :3]]},
            r"the first is \(4, 5, 3\), but another is \(3, 5, 3\)",
        ),
        (lambda s: {"images": s.images[:11]}, "11 images and 12 labels"),
        (lambda s: {"splits": s.splits[:11]}, "12 labels and 11 splits"),
        (
            lambda s: {"classes": ["cat"], "labels": 0 * s.labels},
            "only one class, 'cat'",
        ),
        (lambda s: {"labels": s.labels + 1}, "labels range from 1 to 2"),
        (lambda s: {"labels": s.labels - 1}, "labels range from -1 to 0"),
        (
            lambda s: {"labels": np.where(s.splits == "val", 0, s.labels)},
            "class 'dog' in split 'val'",
        ),
        (
            lambda s: {"splits": np.where(s.splits == "test", "val", s.splits)},
            "'cat' in split 'test'",
        ),
        (lambda s: {"classes": ["cat", "cat "]}, "2 classes are named 'cat'"),
        (lambda s: {"splits": one_test_image_of_each_class(s)}, "two of at least one class"),
        (
            lambda s: {"splits": np.where(np.arange(12) == 0, "trian", s.splits)},
            "not test, train, trian, val",
        ),
    ],
)
def test_faults_of_a_source_are_reported_and_nothing_is_written(source, tmp_path, fault, message):
    with pytest.raises(ValueError, match=message):
        prepare(replace(source, **fault(source)), tmp_path / "prepared")
    assert not list(tmp_path.glob("prepared/*"))


def test_images_and_samples_must_be_equal_in_number(source, tmp_path):
    prepare(source, tmp_path)
    write_npy(tmp_path / "images.npy", source.images[:10])
    with pytest.raises(DamagedFileError, match=r"images\.npy: has 10 .*samples\.csv has 12"):
        load(tmp_path)


def in_blocks(source):
    """The same source in blocks of 5, 5 and 2 images."""
    return replace(source, images=[source.images[:5], source.images[5:10], source.images[10:]])


def test_blocks_are_written_with_the_same_bytes_as_one_array(source, tmp_path):
    prepare(source, tmp_path / "array")
    prepare(in_blocks(source), tmp_path / "blocks")
    for name in ("images.npy", "samples.csv", "classes.json"):
        assert (tmp_path / "array" / name).read_bytes() == (tmp_path / "blocks" / name).read_bytes()
    np.save(tmp_path / "numpy.npy", source.images)
    np.testing.assert_array_equal(
        np.load(tmp_path / "numpy.npy"), np.load(tmp_path / "array/images.npy")
    )


def test_temporary_files_of_a_killed_preparation_are_removed(source, tmp_path):
    names = ["classes.json", "images.npy", "samples.csv"]
    (tmp_path / ".images.npy.abc.npy").write_bytes(b"half")
    prepare(source, tmp_path)
    sums = [".classes.json.sha256", ".images.npy.sha256", ".samples.csv.sha256"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*sums, *names]


def test_new_images_never_lie_beside_the_samples_of_old_ones(source, tmp_path, monkeypatch):
    prepare(source, tmp_path)

    def die(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("munkey.data.prepared.write_csv", die)
    with pytest.raises(KeyboardInterrupt):
        prepare(source, tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path)


def test_an_interrupted_preparation_starts_again_and_gives_the_same_bytes(source, tmp_path):
    source = in_blocks(source)

    def interrupted():
        yield source.images[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(replace(source, images=interrupted()), tmp_path / "cut")
    assert not list((tmp_path / "cut").iterdir())
    for folder in ("cut", "whole"):
        prepare(source, tmp_path / folder)
    assert (tmp_path / "cut/images.npy").read_bytes() == (
        tmp_path / "whole/images.npy"
    ).read_bytes()


def test_too_few_training_samples_are_reported_with_the_other_faults(source, tmp_path):
    prepare(source, tmp_path, min_train=4)
    source.labels[0] = 7
    with pytest.raises(
        SourceError,
        match=r"(?s)2 faults.* 0 to 7.*4 training samples; keys\.depth",
    ):
        prepare(source, tmp_path, min_train=5)


def test_more_training_samples_than_a_limit_are_refused_before_any_key(source, tmp_path):
    prepare(source, tmp_path, max_train={"krr takes at most 4": 4})
    with pytest.raises(SourceError, match="4 training samples; krr takes at most 3"):
        prepare(source, tmp_path, max_train={"krr takes at most 3": 3, "krr takes at most 4": 4})


def test_copies_across_splits_are_counted(source, tmp_path):
    """Images 0 to 3 are of train, 4 to 7 of val, 8 to 11 of test; a copy within a split is none across splits."""
    for original, copied in ((1, 2), (2, 5), (5, 6), (4, 9), (0, 10)):
        source.images[copied] = source.images[original]
    warnings = []
    prepare(source, tmp_path, report=warnings.append)
    [across] = [warning for warning in warnings if "another split" in warning]
    assert across.startswith("WARNING: 4 images of val or test")


def test_a_unit_with_more_than_a_tenth_of_the_samples_gives_a_warning(source, tmp_path):
    warnings = []
    prepare(
        replace(source, units=["unknown", "unknown", 7, *[None] * 9]),
        tmp_path,
        report=warnings.append,
    )
    assert len(warnings) == 1
    assert "'unknown' (2)" in warnings[0]
    assert load(tmp_path).units == ("unknown", "unknown", "7", *[None] * 9)
