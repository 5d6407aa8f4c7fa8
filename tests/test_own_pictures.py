"""Own files that are not as they should be, and what is set for every data set alike: a limit per class, a size."""

import csv
import io
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from munkey import data
from munkey.data import DATASETS, Source, SourceError, pictures
from munkey.data.shaping import shaped


def settings(path=None, size=None, limit=None):
    return SimpleNamespace(path=path and str(path), storage_size=size, split=[0.6, 0.15, 0.25], limit_per_class=limit)


def picture(path, seed=0, size=(4, 3)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def pets(tmp_path):
    """Ten different pictures of each of two classes."""
    for label, name in enumerate(("cat", "dog")):
        for i in range(10):
            picture(tmp_path / "pets" / name / f"{i}.png", seed=10 * label + i)
    return tmp_path / "pets"


def source_of(path, **given):
    return DATASETS["imagefolder"].load(settings(path, **given))


def decoded(image, ending, folder, **options):
    path = folder / f"x.{ending}"
    image.save(path, **options)
    (block,) = pictures.decode([str(path)], lambda name: Path(name).open("rb"), None)  # noqa: SIM115
    return block[0]


def test_samples_tell_the_file_that_each_id_stands_for(pets, tmp_path):
    data.prepare(source_of(pets), tmp_path / "out")
    with (tmp_path / "out/samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    images = data.load(tmp_path / "out").images
    assert [row["name"] for row in rows[:2]] == ["cat/0.png", "cat/1.png"]
    for row in rows:
        np.testing.assert_array_equal(images[int(row["id"])], np.asarray(Image.open(pets / row["name"])))


def test_pictures_in_nested_folders_belong_to_their_class_and_other_files_are_counted(pets, capfd):
    picture(pets / "dog/puppies/0.png", seed=99)
    (pets / "dog/notes.txt").write_text("soon")
    (pets / "dog/.hidden.png").write_bytes(b"")
    source = source_of(pets)
    assert source.names[-1] == "dog/puppies/0.png"
    assert source.labels.tolist() == [0] * 10 + [1] * 11
    assert "1 files are no pictures" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("present", "said"),
    [
        (["train", "val"], "there is no folder 'test'"),
        (["train"], "there is no folder 'test'"),
        (["val", "test"], "there is no folder 'train'"),
        (["train", "test", "valid"], "the folder 'valid' is none of train, val, test"),
    ],
)
def test_folders_of_splits_that_are_incomplete_are_never_taken_for_classes(pets, tmp_path, present, said):
    for name in present:
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / name).symlink_to(pets)
    with pytest.raises(SourceError, match=said):
        source_of(tmp_path / "mine")


def test_an_empty_class_and_a_corrupt_picture_are_told_together(pets):
    (pets / "eel").mkdir()
    (pets / "cat/3.png").write_bytes(b"no picture")
    with pytest.raises(SourceError, match=r"(?s)2 faults.*eel: no picture.*cat/3\.png"):
        source_of(pets)


def test_labels_out_of_range_and_nan_in_any_part_are_told_together(tmp_path):
    arrays = {}
    for seed, split in enumerate(data.SPLITS):
        arrays[f"{split}_images"] = np.random.default_rng(seed).random((4, 3, 3), dtype=np.float32)
        arrays[f"{split}_labels"] = np.array([0, 1, 0, -1])
    arrays["train_images"][2, 0, 0] = np.nan
    arrays["test_images"][3, 1, 1] = np.inf
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(SourceError) as refused:
        data.prepare(DATASETS["npz"].load(settings(tmp_path / "x.npz")), tmp_path / "out")
    said = "\n".join(refused.value.faults)
    assert "labels run from -1 to 1" in said
    assert "train_images: image 2 has pixels that are not finite" in said
    assert "test_images: image 3 has pixels that are not finite" in said


def test_twenty_faults_are_shown_and_all_are_counted():
    error = SourceError("pictures", [f"{i}.png" for i in range(25)])
    assert "25 faults" in str(error) and "19.png" in str(error) and "20.png" not in str(error)
    assert "and 5 more" in str(error)


def test_dark_16_bit_grey_stays_dark(tmp_path):
    dark = Image.fromarray(np.full((2, 2), 200, np.uint16))
    assert decoded(dark, "png", tmp_path).max() == 0
    assert decoded(dark, "tif", tmp_path).max() == 0


def test_float_pictures_are_read_as_0_to_1(tmp_path):
    values = np.array([[0.0, 0.5], [0.25, 1.0]], dtype=np.float32)
    np.testing.assert_array_equal(decoded(Image.fromarray(values), "tif", tmp_path)[..., 0], [[0, 128], [64, 255]])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array([[np.nan, 0.5]], np.float32), "not finite"),
        (np.array([[0.0, 200.0]], np.float32), r"must lie in \[0, 1\]"),
        (np.array([[0, 70_000]], np.int32), "must be 16 bits"),
    ],
)
def test_grey_without_a_known_scale_is_refused(tmp_path, values, said):
    with pytest.raises(SourceError, match=said):
        decoded(Image.fromarray(values), "tif", tmp_path)


def test_a_picture_too_big_to_be_true_is_named_like_any_other_fault(pets, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3)  # of 12
    with pytest.raises(SourceError, match=r"20 faults"):
        list(source_of(pets).images)


def test_a_broken_member_of_a_zip_is_named(tmp_path):
    content = io.BytesIO()
    Image.fromarray(np.zeros((3, 3, 3), np.uint8)).save(content, "png")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.png", content.getvalue())
    whole = bytearray((tmp_path / "x.zip").read_bytes())
    whole[50] ^= 255
    (tmp_path / "x.zip").write_bytes(whole)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive, pytest.raises(SourceError, match=r"a\.png: cannot be read"):
        list(pictures.decode(["a.png"], archive.open, None))


def source_of_arrays(count=12):
    """Blocks of 5, 5 and 2 images; classes and splits take turns."""
    images = np.random.default_rng(0).integers(0, 256, (count, 4, 6, 3), dtype=np.uint8)
    blocks = [images[:5], images[5:10], images[10:]]
    return images, Source(blocks, np.arange(count) % 2, np.repeat(data.SPLITS, 4), ["a", "b"], list("abcdefghijkl"))


def test_a_limit_keeps_the_first_of_each_class_in_each_split(tmp_path):
    images, source = source_of_arrays()
    limited = shaped(source, settings(limit=1))
    assert limited.names == ["a", "b", "e", "f", "i", "j"]
    data.prepare(limited, tmp_path)
    found = data.load(tmp_path)
    np.testing.assert_array_equal(found.images, images[[0, 1, 4, 5, 8, 9]])
    assert found.labels.tolist() == [0, 1] * 3
    assert found.splits.tolist() == ["train", "train", "val", "val", "test", "test"]


def test_a_storage_size_holds_for_every_data_set(tmp_path):
    images, source = source_of_arrays()
    data.prepare(shaped(source, settings(size=5)), tmp_path)
    found = data.load(tmp_path).images
    assert found.shape == (12, 5, 5, 3)
    expected = Image.fromarray(images[7]).resize((5, 5), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(found[7], np.asarray(expected))


def test_nothing_set_changes_nothing():
    _, source = source_of_arrays()
    assert shaped(source, settings()) is source


def test_what_a_killed_preparation_left_is_cleared_away(tmp_path):
    (tmp_path / ".images.npy.abc.npy").write_bytes(b"half")
    data.prepare(source_of_arrays()[1], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["classes.json", "images.npy", "samples.csv"]


def test_an_interrupted_preparation_starts_anew_and_ends_the_same(tmp_path):
    _, source = source_of_arrays()

    def interrupted():
        yield source.images[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.prepare(Source(interrupted(), source.labels, source.splits, source.classes), tmp_path / "cut")
    assert not list((tmp_path / "cut").iterdir())
    for folder in ("cut", "whole"):
        data.prepare(source, tmp_path / folder)
    assert (tmp_path / "cut/images.npy").read_bytes() == (tmp_path / "whole/images.npy").read_bytes()


def test_a_copy_of_a_val_image_in_test_counts_too(tmp_path):
    images, source = source_of_arrays()
    images[9] = images[4]  # a view of the blocks
    said = []
    data.prepare(source, tmp_path, report=said.append)
    assert said and said[0].startswith("WARNING: 1 images of val or test stand in another split too")


def test_too_few_training_samples_are_told_with_the_other_faults(tmp_path):
    _, source = source_of_arrays()
    data.prepare(source, tmp_path, least=4)
    source.labels[0] = 7
    with pytest.raises(SourceError, match=r"(?s)2 faults.*labels run from 0 to 7.*4 training samples; keys\.depth"):
        data.prepare(source, tmp_path, least=5)


def test_pictures_are_handed_on_by_bytes_not_by_number(pets, monkeypatch):
    monkeypatch.setattr(pictures, "BLOCK", 100)  # three pictures of 36 bytes
    assert [len(block) for block in source_of(pets).images] == [3] * 6 + [2]
