"""NPZ archives in the MedMNIST layout: which arrays serve as which split, and what is wrong with them."""

import re

import numpy as np
import pytest

from munkey.data import arrays
from munkey.data.prepared import MAX_CLASSES, prepare
from munkey.data.registry import DATASETS
from munkey.data.sets import npz
from munkey.data.source import SPLITS, SourceError
from munkey.data.source_settings import apply_source_settings
from tests.data.inputs import archive, counts, loaded, settings


def test_readers_of_users_files_say_whether_their_path_is_a_file_or_a_folder():
    kinds = {entry.name: entry.needs_path for entry in DATASETS.values() if entry.needs_path}
    assert kinds == {"csv": "file", "npz": "file", "idx": "folder", "imagefolder": "folder"}


@pytest.mark.parametrize("shape", [(6, 6, 3), (6, 6)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_an_archive_in_the_medmnist_layout_is_read_exactly(tmp_path, shape, dtype, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", 500)  # several blocks
    written = archive(tmp_path / "x.npz", {"train": 9, "val": 6, "test": 6}, dtype, shape)
    dataset = loaded(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")
    expected = np.concatenate([written[f"{split}_images"] for split in SPLITS])
    if dtype != np.uint8:
        expected = np.rint(expected * 255).astype(np.uint8)
    np.testing.assert_array_equal(
        dataset.images, expected if len(shape) == 3 else np.repeat(expected[..., None], 3, 3)
    )
    assert counts(dataset.splits) == [9, 6, 6]
    assert dataset.labels.tolist() == [0, 1, 2] * 7


def test_missing_arrays_are_named(tmp_path):
    np.savez(tmp_path / "x.npz", train_images=np.zeros((3, 2, 2), np.uint8))
    with pytest.raises(SourceError, match=r"(?s)train_labels is missing.*test_images is missing"):
        DATASETS["npz"].load(settings(tmp_path / "x.npz"))


def test_val_and_test_of_pathmnist_are_divided_from_its_val(tmp_path):
    archive(tmp_path / "pathmnist_224.npz", {"train": 12, "val": 30, "test": 9})
    source = npz.read_archive(
        tmp_path / "pathmnist_224.npz", {"train": "train", "test": "val"}, list("abc"), 12
    )
    assert counts(source.splits) == [12, 12, 18]
    assert sum(len(block) for block in source.images) == 42


def test_labels_out_of_range_and_nan_in_any_part_are_reported_together(tmp_path):
    written = {}
    for seed, split in enumerate(SPLITS):
        written[f"{split}_images"] = np.random.default_rng(seed).random((4, 3, 3), dtype=np.float32)
        written[f"{split}_labels"] = np.array([0, 1, 0, -1])
    written["train_images"][[1, 2], 0, 0] = np.nan
    written["test_images"][3, 1, 1] = np.inf
    np.savez(tmp_path / "x.npz", **written)
    with pytest.raises(SourceError) as refused:
        prepare(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")
    faults = "\n".join(refused.value.faults)
    assert "labels range from -1 to 1" in faults
    assert "train_images: image 1 " in faults
    assert "train_images: image 2 " in faults
    assert "test_images: image 3 " in faults


def test_a_damaged_array_and_nan_in_another_are_reported_together(tmp_path):
    path = tmp_path / "x.npz"
    labels = np.arange(4) % 2
    images = {
        "train_images": np.full((4, 64, 64), 7, np.uint8),
        "test_images": np.full((4, 64, 64), np.nan),
    }
    np.savez(path, **images, train_labels=labels, test_labels=labels)
    content = bytearray(path.read_bytes())
    content[content.index(bytes([7] * 10_000)) + 9_000] = 8  # far behind the header
    path.write_bytes(content)
    with pytest.raises(
        SourceError, match=r"(?s)train_images: cannot be read.*test_images: image 0"
    ):
        list(DATASETS["npz"].load(settings(path)).images)


def changed(path, part, change):
    """Write an archive of 9, 6 and 6 images in which one array is changed."""
    written = archive(path, {"train": 9, "val": 6, "test": 6})
    np.savez(path, **written | {part: change(written[part])})


def refusal(path, **kind):
    """What is said of a file that is refused."""
    with pytest.raises(SourceError) as refused:
        loaded(
            apply_source_settings(
                DATASETS["npz"].load(settings(path, **kind)), settings(path, **kind)
            ),
            path.parent / "out",
        )
    assert "elete" not in str(refused.value)
    assert not list(path.parent.glob("out/*"))
    return str(refused.value)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        (
            "test_images",
            lambda a: a.transpose(0, 3, 1, 2).copy(),
            r"test_images: .*\(6, 3, 6, 6\); the channels come first",
        ),
        (
            "test_images",
            np.asfortranarray,
            r"test_images: \(6, 6, 6, 3\) is stored in Fortran order",
        ),
        (
            "test_images",
            lambda a: a[..., :2],
            r"test_images: .* 1 or 3 channels, not \(6, 6, 6, 2\)$",
        ),
        (
            "test_images",
            lambda a: a[0],
            r"test_images \(6, 6, 3\) and test_labels \(6, 1\)|differ in size",
        ),
        ("test_images", lambda a: a[0, 0], r"test_images: must be \(N, H, W\) or .* not \(6, 3\)"),
        (
            "test_images",
            lambda a: a[:0],
            r"test_images: contains no images, .*\(0, 6, 6, 3\)",
        ),
        (
            "test_images",
            lambda a: a[:, :0],
            r"test_images: contains no images, .*\(6, 0, 6, 3\)",
        ),
        (
            "test_images",
            lambda a: a.astype(np.int64),
            r"test_images: pixels must be uint8, .* int64",
        ),
        (
            "test_images",
            lambda a: 2.0 + 0 * a,
            r"test_images: float pixels .*\[2\.0, 2\.0\]",
        ),
        (
            "test_images",
            lambda a: a.astype(object),
            r"test_images: pixels must be uint8, .* object",
        ),
        (
            "test_images",
            lambda a: a[:, :5],
            r"train_images \(6, 6\) px and test_images \(5, 6\) px",
        ),
        (
            "val_images",
            lambda a: a[:5],
            r"val_images \(5, 6, 6, 3\) and val_labels \(6, 1\) differ in length",
        ),
        (
            "val_labels",
            lambda a: a[:5],
            r"val_images \(6, 6, 6, 3\) and val_labels \(5, 1\) differ in length",
        ),
        (
            "val_labels",
            lambda a: a[0, 0],
            r"val_labels: labels must be integers, .* \(\) uint8",
        ),
        (
            "val_labels",
            lambda a: a.astype(object),
            r"val_labels: labels must be integers, .*\(6, 1\) object",
        ),
        (
            "val_labels",
            lambda a: a.astype(str),
            r"val_labels: labels must be integers, .* not \(6, 1\) <U",
        ),
        (
            "val_labels",
            lambda a: np.repeat(a, 2, axis=1),
            r"val_labels: .* one per image: .* not \(6, 2\) uint8",
        ),
        ("val_labels", lambda a: a[:0], r"differ in length"),
        (
            "val_labels",
            lambda a: a * 2,
            r"labels range from 0 to 4, .* 0 to 3",
        ),
        ("val_labels", lambda a: a - 1, r"labels range from 0 to 255"),
        (
            "val_labels",
            lambda a: a.astype(np.int64) + 20_000_000,
            r"range from 0 to 20000002, .* 6 class",
        ),
    ],
)
def test_arrays_that_cannot_be_used_are_named_with_their_shapes(tmp_path, part, change, message):
    changed(tmp_path / "x.npz", part, change)
    assert re.search(message, refusal(tmp_path / "x.npz"), re.MULTILINE)


def test_images_of_other_sizes_are_resized_with_a_storage_size(tmp_path):
    changed(tmp_path / "x.npz", "test_images", lambda a: a[:, :5])
    sized = settings(tmp_path / "x.npz", size=4)
    source = apply_source_settings(DATASETS["npz"].load(sized), sized)
    assert loaded(source, tmp_path / "out").images.shape == (21, 4, 4, 3)


@pytest.mark.parametrize("kind", [{}, {"limit": 2}, {"classes": ["a", "b"]}])
def test_labels_with_too_many_classes_are_refused_without_counting_up_to_them(tmp_path, kind):
    count = MAX_CLASSES + 1
    images = np.zeros((count, 1, 1), np.uint8)
    labels = np.arange(count)
    np.savez(
        tmp_path / "x.npz",
        train_images=images,
        train_labels=labels,
        test_images=images,
        test_labels=labels,
    )
    message = refusal(tmp_path / "x.npz", **kind)
    assert ("25,001 classes" in message) == ("classes" not in kind)
    assert "classes" in message


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_file_is_named_without_advice_to_delete_it(tmp_path, save):
    path = tmp_path / "x.npz"
    save(path, **archive(path, {"train": 9, "val": 6, "test": 6}))
    whole = path.read_bytes()
    for damaged in (b"", b"no archive", whole[:-30], whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        assert re.search(r"x\.npz: cannot be read \(BadZipFile", refusal(path))
    flipped = bytearray(whole)
    flipped[600] ^= 255  # within the pixels
    path.write_bytes(flipped)
    assert re.search(r"x\.npz: train_images: cannot be read \(", refusal(path))


def test_units_are_read_from_their_own_arrays(tmp_path):
    written = archive(tmp_path / "x.npz", {"train": 6, "val": 3, "test": 6})
    units = {"train_units": [*"aabbc", ""], "val_units": [*"ddd"], "test_units": [*"eeefff"]}
    np.savez(tmp_path / "x.npz", **written, **units)
    dataset = loaded(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")
    assert dataset.units == (*"aabbc", None, *"dddeeefff")
    units["train_units"] = [7.0, float("nan"), 8.0, 8.0, 9.5, 7.0]
    units["val_units"] = ["NA", "<NA>", "None"]
    units["test_units"] = [b" Zoe\xcc\x88 ", b"NaT", b"7", b"", b"nan", b"f"]
    np.savez(tmp_path / "x.npz", **written, **units)
    units = (
        "7",
        None,
        "8",
        "8",
        "9.5",
        "7",
        None,
        None,
        None,
        "Zo\u00eb",
        None,
        "7",
        None,
        None,
        "f",
    )
    dataset = loaded(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "again")
    assert dataset.units == units
    np.savez(tmp_path / "x.npz", **written, train_units=np.array([*"aabbcc"]))
    with pytest.raises(SourceError, match="one unit per image"):
        DATASETS["npz"].load(settings(tmp_path / "x.npz"))


def test_units_stay_whole_if_val_is_divided_from_test(tmp_path):
    written = archive(tmp_path / "x.npz", {"train": 6, "test": 60})
    people = [f"person {number // 4}" for number in range(60)]
    np.savez(tmp_path / "x.npz", **written, train_units=["a"] * 6, test_units=people)
    dataset = loaded(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")
    splits = dataset.splits[6:].reshape(15, 4)
    assert (splits == splits[:, :1]).all()
    assert (splits[:, 0] == "val").sum() == 6  # 40% of the people


def test_labels_that_begin_at_1_need_first_label_and_valid_is_val(tmp_path):
    path = tmp_path / "letters.npz"
    written = archive(path, {"train": 9, "valid": 6, "test": 6})
    for split in ("train", "valid", "test"):
        written[f"{split}_labels"] += 1
    np.savez(path, **written)
    assert "set source.first_label to 1" in refusal(path)
    source = DATASETS["npz"].load(settings(path, first_label=1))
    dataset = loaded(source, tmp_path / "out")
    assert counts(dataset.splits) == [9, 6, 6]
    assert source.classes == ["1", "2", "3"]
    assert dataset.labels.tolist() == [0, 1, 2] * 7


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    (tmp_path / "x.npz").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "x.npz: is a pointer of Git LFS" in refusal(tmp_path / "x.npz")


def test_two_names_of_one_split_are_refused(tmp_path):
    written = archive(tmp_path / "x.npz", {"train": 6, "val": 3, "test": 3})
    written |= {f"valid_{name}": written[f"val_{name}"] for name in ("images", "labels")}
    np.savez(tmp_path / "x.npz", **written)
    with pytest.raises(SourceError, match="val_images and valid_images are"):
        DATASETS["npz"].load(settings(tmp_path / "x.npz"))
