"""Pictures in folders: which folders are splits and which are classes, and what is wrong with them."""

import csv
import os

import numpy as np
import pytest
from PIL import Image

from munkey.data.registry import DATASETS
from munkey.data.source import SourceError
from munkey.data.source_settings import shaped
from tests.data.inputs import class_folders, counts, loaded, pets_in, picture, settings


@pytest.fixture
def pets(tmp_path):
    return pets_in(tmp_path)


def source_of(path, **changes):
    return DATASETS["imagefolder"].load(settings(path, **changes))


def test_a_folder_of_classes_is_split_within_each_class(tmp_path):
    class_folders(tmp_path / "pets", {"cat": 20, "dog": 40})
    dataset = loaded(source_of(tmp_path / "pets"), tmp_path / "out")
    assert dataset.classes == ["cat", "dog"]
    assert dataset.images.shape == (60, 6, 8, 3)
    for label, count in ((0, 20), (1, 40)):
        assert counts(dataset.splits[dataset.labels == label]) == [count * 0.6, count * 0.15, count * 0.25]


def test_pictures_are_in_name_order_and_exact(tmp_path):
    class_folders(tmp_path / "pets", {"cat": 12, "dog": 12})
    dataset = loaded(source_of(tmp_path / "pets", limit=10), tmp_path / "out")
    assert len(dataset.ids) == 20
    expected = np.asarray(Image.open(tmp_path / "pets/dog/003.png"))
    np.testing.assert_array_equal(dataset.images[13], expected)


def test_split_folders_stand_and_a_missing_val_comes_from_test(tmp_path):
    for split, count in {"train": 6, "test": 10}.items():
        class_folders(tmp_path / "pets" / split, {"cat": count, "dog": count})
    dataset = loaded(source_of(tmp_path / "pets"), tmp_path / "out")
    assert counts(dataset.splits) == [12, 8, 12]


def test_folders_of_all_three_splits_stand_as_they_are(tmp_path):
    for split, count in {"train": 6, "val": 3, "test": 4}.items():
        class_folders(tmp_path / "pets" / split, {"cat": count, "dog": count})
    source = source_of(tmp_path / "pets")
    assert counts(source.splits) == [12, 6, 8]
    assert all(name.split("/")[0] == split for name, split in zip(source.names, source.splits, strict=True))


def test_samples_say_which_file_each_id_stands_for(pets, tmp_path):
    images = loaded(source_of(pets), tmp_path / "out").images
    with (tmp_path / "out/samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows[:2]] == ["cat/0.png", "cat/1.png"]
    for row in rows:
        np.testing.assert_array_equal(images[int(row["id"])], np.asarray(Image.open(pets / row["name"])))


def test_pictures_in_nested_folders_belong_to_their_class_and_other_files_are_counted(pets, capfd):
    picture(pets / "dog/puppies/0.png", size=(4, 3), seed=99)
    (pets / "dog/notes.txt").write_text("soon")
    (pets / "dog/.hidden.png").write_bytes(b"")
    source = source_of(pets)
    assert source.names[-1] == "dog/puppies/0.png"
    assert source.labels.tolist() == [0] * 10 + [1] * 11
    assert "left out 1 file without the extension of a picture" in capfd.readouterr().err
    (pets / "dog/puppies/notes.txt").write_text("soon")
    source_of(pets)
    assert "left out 2 files without the extension of a picture" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (["train", "val"], "there is no folder 'test'"),
        (["train"], "there is no folder 'test'"),
        (["val", "test"], "there is no folder 'train'"),
        (["train", "test", "valid"], "the folder 'valid' is none of train, val, test"),
    ],
)
def test_folders_of_splits_that_are_incomplete_are_never_taken_for_classes(pets, tmp_path, present, message):
    for name in present:
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / name).symlink_to(pets)
    with pytest.raises(SourceError, match=message):
        source_of(tmp_path / "mine")


def test_an_empty_class_and_a_corrupt_picture_are_reported_together(pets):
    (pets / "eel").mkdir()
    (pets / "cat/3.png").write_bytes(b"no picture")
    with pytest.raises(SourceError, match=r"(?s)2 faults.*eel: no picture.*cat/3\.png"):
        source_of(pets)


@pytest.mark.parametrize(("path", "message"), [("absent", "there is no such folder"), ("", "holds no class folders")])
def test_a_folder_without_classes_is_named(tmp_path, path, message):
    with pytest.raises(SourceError, match=message):
        source_of(tmp_path / path)


@pytest.mark.parametrize("place", ["loop", "cat/loop", "dog/more/loop"])
@pytest.mark.parametrize("target", [".", "..", "above"])
def test_a_link_back_to_a_folder_that_it_lies_in_is_named(pets, place, target):
    (pets / place).parent.mkdir(exist_ok=True)
    to = {".": (pets / place).parent, "..": pets, "above": pets.parent}[target]
    (pets / place).symlink_to(to)
    with pytest.raises(SourceError, match=f"{place}: is a link back to {to}, a folder that it lies in"):
        source_of(pets)


def test_links_that_lead_back_over_each_other_are_named(pets):
    (pets / "cat/dogs").symlink_to(pets / "dog")
    (pets / "dog/cats").symlink_to(pets / "cat")
    with pytest.raises(SourceError, match=r"cat/dogs/cats: is a link back to .*cat, a folder that it lies in"):
        source_of(pets)


def test_links_to_pictures_elsewhere_are_followed(pets, tmp_path):
    (tmp_path / "linked").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "linked" / name).symlink_to(pets / name)
    assert len(source_of(tmp_path / "linked").labels) == 20


def test_names_that_are_not_utf_8_are_taken_and_written_with_escapes(pets, tmp_path, capfd):
    latin = os.fsdecode(b"caf\xe9")
    (pets / "cat").rename(pets / latin)
    (pets / latin / "0.png").rename(pets / latin / f"{latin}.png")
    (pets / latin / f"{latin}.txt").write_text("soon")
    dataset = loaded(source_of(pets), tmp_path / "out")
    assert dataset.classes == [r"caf\xe9", "dog"]
    with (tmp_path / "out/samples.csv").open(encoding="utf-8") as file:
        assert [row["name"] for row in csv.DictReader(file)][9] == r"caf\xe9/caf\xe9.png"
    assert r"e.g. " in capfd.readouterr().err
    (pets / latin / f"{latin}.png").write_bytes(b"no picture")
    with pytest.raises(SourceError) as refused:
        loaded(source_of(pets), tmp_path / "again")
    assert r"caf\xe9/caf\xe9.png: cannot be read" in str(refused.value)


def test_a_folder_that_cannot_be_looked_into_is_named(pets, monkeypatch):
    def denied(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.iterdir", denied)
    with pytest.raises(SourceError, match=r"pets: cannot be read \(PermissionError"):
        source_of(pets)


def test_a_pattern_finds_units_in_paths_and_keeps_each_in_one_split(tmp_path):
    for person in range(20):
        for number in range(3):
            picture(
                tmp_path / f"pets/{'cat' if person % 2 else 'dog'}/p{person:02}_{number}.png", seed=person * 3 + number
            )
    picture(tmp_path / "pets/cat/other.png", seed=99)
    source = source_of(tmp_path / "pets", units=r"(p\d+)_")
    units = dict(zip(source.names, source.units, strict=True))
    assert units["cat/p01_2.png"] == "p01" and units["cat/other.png"] is None
    pairs = {(unit, split) for unit, split in zip(source.units, source.splits, strict=True) if unit}
    assert len(pairs) == 20


@pytest.mark.parametrize(
    ("pattern", "message"), [("p[", "no regular expression"), (r"p\d+", "one group"), ("(a)(b)", "it has 2")]
)
def test_a_pattern_without_one_group_is_refused(pattern, message):
    with pytest.raises(ValueError, match=message):
        settings(units=pattern)


def test_a_pattern_where_there_are_no_paths_is_refused():
    asked = settings(units="(p)")
    with pytest.raises(SourceError, match="for folders of pictures alone"):
        shaped(DATASETS["digits"].load(asked), asked)
