"""Pictures in folders: which folders are splits and which are classes, and what is wrong with them."""

import csv
import os
import unicodedata

import numpy as np
import pytest
from PIL import Image

from munkey.data.prepared import prepare
from munkey.data.registry import DATASETS
from munkey.data.source import SourceError
from munkey.data.source_settings import apply_source_settings
from munkey.estimators.pictures import readable_pictures
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
        assert counts(dataset.splits[dataset.labels == label]) == [
            count * 0.6,
            count * 0.15,
            count * 0.25,
        ]


def test_pictures_are_in_name_order_and_exact(tmp_path):
    class_folders(tmp_path / "pets", {"cat": 12, "dog": 12})
    dataset = loaded(source_of(tmp_path / "pets", limit=10), tmp_path / "out")
    assert len(dataset.ids) == 20
    expected = np.asarray(Image.open(tmp_path / "pets/dog/003.png"))
    np.testing.assert_array_equal(dataset.images[13], expected)


def test_split_folders_are_used_and_a_missing_val_is_divided_from_test(tmp_path):
    for split, count in {"train": 6, "test": 10}.items():
        class_folders(tmp_path / "pets" / split, {"cat": count, "dog": count})
    dataset = loaded(source_of(tmp_path / "pets"), tmp_path / "out")
    assert counts(dataset.splits) == [12, 8, 12]


def test_folders_of_all_three_splits_are_used_as_they_are(tmp_path):
    for split, count in {"train": 6, "val": 3, "test": 4}.items():
        class_folders(tmp_path / "pets" / split, {"cat": count, "dog": count})
    source = source_of(tmp_path / "pets")
    assert counts(source.splits) == [12, 6, 8]
    for name, split in zip(source.names, source.splits, strict=True):
        assert name.startswith(f"{split}/")


def test_samples_csv_names_the_file_of_each_id(pets, tmp_path):
    images = loaded(source_of(pets), tmp_path / "out").images
    with (tmp_path / "out/samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows[:2]] == ["cat/0.png", "cat/1.png"]
    for row in rows:
        np.testing.assert_array_equal(
            images[int(row["id"])], np.asarray(Image.open(pets / row["name"]))
        )


def test_pictures_in_nested_folders_belong_to_their_class_and_other_files_are_counted(pets, capfd):
    picture(pets / "dog/puppies/0.png", size=(4, 3), seed=99)
    (pets / "dog/notes.txt").write_text("soon")
    (pets / "dog/.hidden.png").write_bytes(b"")
    source = source_of(pets)
    assert source.names[-1] == "dog/puppies/0.png"
    assert source.labels.tolist() == [0] * 10 + [1] * 11
    assert "skipped 1 file next to" in capfd.readouterr().err
    (pets / "dog/puppies/notes.txt").write_text("soon")
    source_of(pets)
    assert "skipped 2 files next to" in capfd.readouterr().err


def test_other_files_beside_pictures_are_skipped_with_one_warning_that_counts_them_by_ending(
    pets, tmp_path, capfd
):
    for number, name in enumerate(
        ["report.pdf", "clip.mpg", "map.h5", "scan.eps", "Thumbs.db", "README", "B.PDF"]
    ):
        (pets / ("cat", "dog")[number % 2] / name).write_bytes(b"%PDF-1.4\n")
    for folder in ("@eaDir", "__MACOSX", "cat/@eaDir", "dog/more/__MACOSX"):
        picture(pets / folder / "0.png", size=(4, 3), seed=7)
    dataset = loaded(source_of(pets), tmp_path / "out")
    assert dataset.classes == ["cat", "dog"]
    assert len(dataset.ids) == 20
    err = capfd.readouterr().err
    assert err.count("skipped 11 files") == 1
    counts = "2 .pdf, 2 @eaDir (folder), 2 __MACOSX (folder), 1 .mpg, 1 .h5, 1 .eps, 1 .db, 1 without extension"
    for count in counts.split(", "):
        assert count in err


def test_unreadable_pictures_are_skipped_with_on_bad_skip_and_all_are_named(pets, tmp_path, capfd):
    (pets / "cat/3.png").write_bytes(b"")
    whole = (pets / "dog/5.png").read_bytes()
    (pets / "dog/5.png").write_bytes(whole[: len(whole) // 2])
    (pets / "dog/9.jpg").symlink_to(pets / "gone.jpg")
    with pytest.raises(SourceError, match=r"(?s)3 faults.*cat/3\.png.*dog/5\.png.*dog/9\.jpg"):
        loaded(source_of(pets), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    source = source_of(pets, on_bad="skip")
    dataset = loaded(source, tmp_path / "out")
    assert len(dataset.ids) == 18
    err = capfd.readouterr().err
    assert err.count("skipped 3 pictures") == 1
    for name in ("cat/3.png", "dog/5.png", "dog/9.jpg"):
        assert name in err
        assert name not in source.names
    for row, name in zip(dataset.ids, source.names, strict=True):
        np.testing.assert_array_equal(dataset.images[row], np.asarray(Image.open(pets / name)))


def test_small_and_empty_classes_are_named_with_their_count_beside_bad_pictures(
    tmp_path,
):
    class_folders(tmp_path / "pets", {"many": 12, "few": 3})
    (tmp_path / "pets/none").mkdir()
    (tmp_path / "pets/many/zero.png").write_bytes(b"")
    with pytest.raises(SourceError) as refused:
        loaded(source_of(tmp_path / "pets"), tmp_path / "out")
    few, none, bad = refused.value.faults
    assert few.startswith("no image of class 'few'")
    assert "it has 3 images" in few
    assert "source.only" in few
    assert "source.split" in few
    assert none == "class 'none' has no image"
    assert "many/zero.png: cannot be read" in bad


def test_only_and_split_settings_help_with_a_class_that_is_too_small(tmp_path):
    class_folders(tmp_path / "pets", {"many": 12, "more": 12, "few": 3})
    (tmp_path / "pets/none").mkdir()
    changed_settings = settings(tmp_path / "pets", only=["many", "more"])
    source = apply_source_settings(DATASETS["imagefolder"].load(changed_settings), changed_settings)
    assert loaded(source, tmp_path / "only").classes == ["many", "more"]
    (tmp_path / "pets/none").rmdir()
    thirds = source_of(tmp_path / "pets", shares=(0.34, 0.33, 0.33))
    assert counts(loaded(thirds, tmp_path / "thirds").splits) == [9, 9, 9]


def test_a_picture_in_two_classes_gives_a_warning_with_two_examples(pets, tmp_path):
    (pets / "cat/more").symlink_to(pets / "dog")
    warnings = []
    prepare(source_of(pets), tmp_path / "out", report=warnings.append)
    (classes,) = [warning for warning in warnings if "two or more classes" in warning]
    assert classes.startswith("WARNING: 10 samples")
    assert "cat/more/0.png (cat) and dog/0.png (dog); cat/more/1.png (cat)" in classes


def test_a_picture_of_two_units_gives_a_warning(tmp_path):
    for number, name in enumerate(["p1_1", "p1_2", *(f"p{person}_3" for person in range(20, 40))]):
        picture(tmp_path / f"pets/dog/{name}.png", seed=number)
    for name in ("p1_0", "p2_0"):
        picture(tmp_path / f"pets/cat/{name}.png", seed=500)
    for number in range(20):
        picture(tmp_path / f"pets/cat/p{number + 40}_0.png", seed=1000 + number)
    warnings = []
    prepare(
        source_of(tmp_path / "pets", units=r"(p\d+)_"), tmp_path / "out", report=warnings.append
    )
    assert "cat/p1_0.png (p1) and cat/p2_0.png (p2)" in "\n".join(warnings)


def deep(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype(np.uint16)).save(path)


def test_gray_of_12_bits_gives_a_warning_and_is_scaled_by_the_setting(tmp_path, capfd):
    """The values 0, 1000, 4095: black, 62 (255 * 1000 / 4095 = 62.3) and white."""
    for name in ("sick", "well"):
        for number in range(8):
            deep(
                tmp_path / "xrays" / name / f"{number}.png",
                np.roll([[0, 1000, 4095], [0, 0, number]], number),
            )
    dark = loaded(source_of(tmp_path / "xrays"), tmp_path / "dark")
    assert dark.images.max() == 15
    err = capfd.readouterr().err
    assert "16 pictures, in which" in err
    assert "largest value is 4,095" in err
    assert "source.white to 4095" in err
    bright = loaded(source_of(tmp_path / "xrays", white=4095), tmp_path / "bright")
    assert bright.images[0, 0, :, 0].tolist() == [0, 62, 255]
    assert "16 bits" not in capfd.readouterr().err
    with pytest.raises(SourceError, match=r"16 faults.*\n.*0 to 4094"):
        loaded(source_of(tmp_path / "xrays", white=4094), tmp_path / "refused")


def test_a_set_of_12_and_16_bit_pictures_can_have_two_whites(tmp_path, capfd):
    """In each class, six pictures of 12 bits and two that use all 16."""
    for name in ("sick", "well"):
        for number in range(8):
            brightest = 65_535 if number > 5 else 4095
            deep(tmp_path / "xrays" / name / f"{number}.png", np.array([[0, 1000, brightest]]))
    dark = loaded(source_of(tmp_path / "xrays"), tmp_path / "dark")
    assert sorted(dark.images.max(axis=(1, 2, 3)).tolist()) == [15] * 12 + [255] * 4
    err = capfd.readouterr().err
    assert "12 pictures, in which" in err
    assert "source.white to [4095, 65535]" in err
    whites = [65_535, 4095]
    mixed = loaded(source_of(tmp_path / "xrays", white=whites), tmp_path / "mixed")
    assert "16 bits" not in capfd.readouterr().err
    pixels = sorted(mixed.images[:, 0, :, 0].tolist())
    assert pixels == [[0, 4, 255]] * 4 + [[0, 62, 255]] * 12


def test_gray_of_16_bits_gives_no_warning(tmp_path, capfd):
    for name in ("sick", "well"):
        for number in range(8):
            deep(tmp_path / "xrays" / name / f"{number}.png", np.array([[0, 2**15, number]]))
    assert loaded(source_of(tmp_path / "xrays"), tmp_path / "out").images.max() == 128
    assert "16 bits" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (["train", "val"], "there is no folder 'test'"),
        (["train"], "there is no folder 'test'"),
        (["val", "test"], "there is no folder 'train'"),
        (["train", "test", "dev"], "the folder 'dev' is not one"),
        (["train", "test", "val", "valid"], "'val' and 'valid' are both 'val'"),
    ],
)
def test_incomplete_split_folders_are_refused(pets, tmp_path, present, message):
    for name in present:
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / name).symlink_to(pets)
    with pytest.raises(SourceError, match=message):
        source_of(tmp_path / "mine")


@pytest.mark.parametrize("name", ["valid", "validation"])
def test_other_names_of_val_are_val(name, tmp_path):
    for split in ("train", name, "test"):
        pets_in(tmp_path / split)
    (tmp_path / "mine").mkdir()
    for split in ("train", name, "test"):
        (tmp_path / "mine" / split).symlink_to(tmp_path / split / "pets")
    source = source_of(tmp_path / "mine")
    assert counts(source.splits) == [20, 20, 20]
    assert sum(file.startswith(f"{name}/") for file in source.names) == 20


def test_split_folders_may_be_in_upper_case(tmp_path):
    """The failure: the folders Train and Test were two classes."""
    for split, count in {"Train": 6, "VAL": 3, "Test": 4}.items():
        class_folders(tmp_path / "pets" / split, {"cat": count, "dog": count})
    source = source_of(tmp_path / "pets")
    assert source.classes == ["cat", "dog"]
    assert counts(source.splits) == [12, 6, 8]


def test_many_unreadable_pictures_are_counted_with_examples(pets, capfd):
    for number in range(45):
        (pets / "cat" / f"bad{number:02}.png").write_bytes(b"")
    assert len(source_of(pets, on_bad="skip").labels) == 20
    err = capfd.readouterr().err
    assert "skipped 45 pictures that cannot be used" in err
    assert "... and 40 more" in err
    assert err.count(".png") == 5


def test_a_pointer_of_git_lfs_is_named_and_notes_of_macos_are_skipped(pets, tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 812\n"
    (pets / "cat/3.png").write_bytes(pointer)
    (pets / "cat/._4.png").write_bytes(b"\x00\x05\x16\x07")
    with pytest.raises(SourceError, match=r"1 fault\n.*cat/3\.png: .*run `git lfs pull`"):
        loaded(source_of(pets), tmp_path / "out")


@pytest.mark.parametrize(
    ("path", "message"), [("absent", "there is no such folder"), ("", "contains no class folders")]
)
def test_a_folder_without_classes_is_named(tmp_path, path, message):
    with pytest.raises(SourceError, match=message):
        source_of(tmp_path / path)


@pytest.mark.parametrize("place", ["loop", "cat/loop", "dog/more/loop"])
@pytest.mark.parametrize("target", [".", "..", "above"])
def test_a_link_back_to_a_folder_that_it_lies_in_is_skipped(pets, place, target, capfd):
    (pets / place).parent.mkdir(exist_ok=True)
    to = {".": (pets / place).parent, "..": pets, "above": pets.parent}[target]
    (pets / place).symlink_to(to)
    expected = readable_names(pets)
    assert list(source_of(pets).names) == expected
    assert len(expected) == 20
    assert "1 link to a folder that contains it; e.g. " in capfd.readouterr().err


def readable_names(pets):
    """The names of pictures below a folder as `readable_pictures` finds them."""
    with pytest.warns(UserWarning, match="link to a folder that contains it"):
        pictures = readable_pictures(pets)
    return sorted(picture.relative_to(pets).as_posix() for picture in pictures)


def test_links_that_lead_back_over_each_other_are_skipped(pets, capfd):
    (pets / "cat/dogs").symlink_to(pets / "dog")
    (pets / "dog/cats").symlink_to(pets / "cat")
    expected = readable_names(pets)
    assert list(source_of(pets, on_bad="skip").names) == expected
    assert len(expected) == 40
    assert "2 link to a folder that contains it; e.g. " in capfd.readouterr().err


def test_links_to_pictures_elsewhere_are_followed(pets, tmp_path):
    (tmp_path / "linked").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "linked" / name).symlink_to(pets / name)
    assert len(source_of(tmp_path / "linked").labels) == 20


def test_names_that_are_not_utf_8_are_written_with_escapes(pets, tmp_path, capfd):
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


def test_an_unreadable_folder_is_named(pets, monkeypatch):
    def denied(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.iterdir", denied)
    with pytest.raises(SourceError, match=r"pets: cannot be read \(PermissionError"):
        source_of(pets)


def test_a_pattern_finds_units_in_paths_and_each_is_in_one_split(tmp_path):
    for person in range(20):
        for number in range(3):
            picture(
                tmp_path / f"pets/{'cat' if person % 2 else 'dog'}/p{person:02}_{number}.png",
                seed=person * 3 + number,
            )
    picture(tmp_path / "pets/cat/other.png", seed=99)
    source = source_of(tmp_path / "pets", units=r"(p\d+)_")
    units = dict(zip(source.names, source.units, strict=True))
    assert units["cat/p01_2.png"] == "p01"
    assert units["cat/other.png"] is None
    pairs = set(zip(source.units, source.splits, strict=True))
    assert len(pairs) == 20 + 1  # and the picture without a unit


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("p[", "not a valid regular expression"), (r"p\d+", "one group"), ("(a)(b)", "it has 2")],
)
def test_a_pattern_without_one_group_is_refused(pattern, message):
    with pytest.raises(ValueError, match=message):
        settings(units=pattern)


def test_a_pattern_for_units_is_refused_without_paths():
    with_pattern = settings(units="(p)")
    with pytest.raises(SourceError, match="applies only to image folders"):
        apply_source_settings(DATASETS["digits"].load(with_pattern), with_pattern)


def test_decomposed_names_of_units_and_classes_are_composed(tmp_path):
    """Units and classes in NFD on disk are in NFC here; two folders of one name are refused."""
    for number in range(10):
        for name in ("Bär", "cat"):
            path = unicodedata.normalize("NFD", f"pets/{name}/Zoë {number % 3}_{number}.png")
            picture(tmp_path / path, seed=number + 10 * len(name) + (name == "cat"))
    source = source_of(tmp_path / "pets", units=r"(Zoë \d)_")
    assert source.classes == ["Bär", "cat"]
    assert set(source.units) == {"Zoë 0", "Zoë 1", "Zoë 2"}
    assert apply_source_settings(source, settings(only=["cat", "Bär"])).classes == ["Bär", "cat"]
    picture(tmp_path / "pets/Bär/0.png", seed=99)
    with pytest.raises(SourceError, match="two folders are named 'Bär'"):
        source_of(tmp_path / "pets")


def test_folders_that_differ_in_spaces_or_case_are_told_about(tmp_path, capsys):
    for folder in ("cat", "Cat", "dog"):
        for number in range(8):
            picture(tmp_path / f"pets/{folder}/{number}.png")
    source = source_of(tmp_path / "pets")
    loaded(source, tmp_path / "out")
    assert "2 classes differ only in case" in capsys.readouterr().out
    (tmp_path / "pets/dog").rename(tmp_path / "pets/cat ")
    with pytest.raises(SourceError, match="two folders are named 'cat'"):
        source_of(tmp_path / "pets")


def test_pictures_outside_the_class_folders_are_mentioned(pets, tmp_path, capsys):
    picture(pets / "loose.png")
    source_of(pets)
    assert "left out 1 picture outside" in capsys.readouterr().out


def test_folders_in_a_list_of_pictures_are_searched(tmp_path):
    class_folders(tmp_path, {"cat": 2, "dog": 1})
    found = readable_pictures([tmp_path / "cat", tmp_path / "dog/000.png"])
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [
        *("cat/000.png", "cat/001.png", "dog/000.png")
    ]
