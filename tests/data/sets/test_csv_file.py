"""A CSV file lists pictures anywhere on disk; what is wrong with it is named by line and column."""

import os
import unicodedata

import numpy as np
import pytest
from PIL import Image

from munkey.data.registry import DATASETS
from munkey.data.source import SourceError
from tests.data.inputs import counts, loaded, pets_in, settings


def source_of(path, **options):
    return DATASETS["csv"].load(settings(path, **options))


@pytest.fixture
def pets(tmp_path):
    """Ten cats and ten dogs, and a list of them in another folder that names one by its place on disk."""
    pets_in(tmp_path)
    files = [f"../pets/{name}/{i}.png" for i in range(10) for name in ("dog", "cat")]
    files[3] = str(tmp_path / "pets/cat/1.png")
    lines = [f"{file},{'dog' if 'dog' in file else 'cat'}" for file in files]
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists/pets.csv").write_text("\n".join(["file,label", *lines]))
    return tmp_path / "lists/pets.csv"


def rewritten(path, change):
    """The same file with its lines, the header among them, changed."""
    path.write_text("\n".join(change(path.read_text().splitlines())))
    return path


def replace_in(path, old, new):
    """The same file with a text replaced."""
    path.write_text(path.read_text().replace(old, new))
    return path


def test_pictures_are_in_the_order_of_the_lines_with_their_labels_and_paths(pets, tmp_path):
    source = source_of(pets)
    dataset = loaded(source, tmp_path / "out")
    assert dataset.classes == ["cat", "dog"]
    assert dataset.labels.tolist() == [1, 0] * 10
    assert dataset.units is None
    assert counts(dataset.splits) == [12, 4, 4]  # 0.6, 0.15 and 0.25 of each ten
    assert source.names[3:5] == [str(tmp_path / "pets/cat/1.png"), str(tmp_path / "pets/dog/2.png")]
    np.testing.assert_array_equal(
        dataset.images[3], np.asarray(Image.open(tmp_path / "pets/cat/1.png"))
    )


def test_a_picture_beside_the_file_is_named_by_its_relative_path(pets, tmp_path):
    pets.rename(tmp_path / "pets.csv")
    replace_in(tmp_path / "pets.csv", "../pets", "./lists/../pets")
    assert source_of(tmp_path / "pets.csv").names[:2] == ["pets/dog/0.png", "pets/cat/0.png"]


def with_column(path, name, values):
    """The same file with one more column."""
    return rewritten(
        path,
        lambda lines: [
            f"{line},{value}" for line, value in zip(lines, [name, *values], strict=True)
        ],
    )


def test_a_unit_is_in_one_split_and_an_empty_cell_is_no_unit(pets):
    """Each of four persons has four pictures, the other four pictures are of nobody."""
    source = source_of(with_column(pets, "unit", [*"AAAABBBBCCCCDDDD", "", " ", "", ""]))
    assert source.units == [*"AAAABBBBCCCCDDDD", None, None, None, None]
    splits_of_units = set(zip(source.units[:16], source.splits[:16], strict=True))
    assert len(splits_of_units) == 4
    assert len(set(source.splits)) > 1


def test_units_stay_whole_if_val_is_divided_from_test(pets):
    """Five persons, two pictures each, in test: 40% of them are two."""
    with_column(
        with_column(pets, "split", ["train"] * 10 + ["test"] * 10),
        "unit",
        [""] * 10 + [*"AABBCCDDEE"],
    )
    source = source_of(pets)
    assert counts(source.splits) == [10, 4, 6]
    assert len(set(zip(source.units[10:], source.splits[10:], strict=True))) == 5


def test_a_unit_in_two_splits_is_named(pets, capfd):
    with_column(pets, "split", ["train"] * 10 + ["val"] * 5 + ["test"] * 5)
    source_of(with_column(pets, "unit", ["A", "B", *[""] * 16, "B", "C"]))
    assert "1 unit in more than one split, e.g. B" in capfd.readouterr().err


def test_splits_of_the_file_are_used_and_test_is_divided_without_val(pets):
    with_column(pets, "split", ["train"] * 10 + ["test"] * 10)
    assert counts(source_of(pets).splits) == [10, 4, 6]
    replace_in(pets, "0.png,dog,train", "0.png,dog,val")
    assert counts(source_of(pets).splits) == [9, 1, 10]


def test_labels_that_are_numbers_are_sorted_by_value(pets):
    replace_in(pets, ",dog", ",2")
    source = source_of(replace_in(pets, ",cat", ",10"))
    assert source.classes == ["2", "10"]
    assert source.labels.tolist() == [0, 1] * 10


def test_a_file_written_by_a_spreadsheet_is_read_the_same(pets):
    """With semicolons, a mark of the byte order, capitals, an index column of pandas and an empty line."""
    plain = source_of(with_column(pets, "unit", ["p1", "p2"] * 10))
    lines = pets.read_text().splitlines()
    sheet = [";File; Label ;Unit"]
    for number, line in enumerate(lines[1:]):
        sheet.append(f"{number};{line.replace(',', ';')}")
    sheet.append(";;;")
    pets.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(sheet).encode())
    source = source_of(pets)
    assert (source.names, source.classes, source.units) == (plain.names, plain.classes, plain.units)
    assert source.labels.tolist() == plain.labels.tolist()
    assert source.splits.tolist() == plain.splits.tolist()


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_file_in_another_encoding_is_refused(pets, encoding):
    text = with_column(pets, "unit", ["Zoë"] * 20).read_text()
    pets.write_bytes(text.encode(encoding))
    with pytest.raises(SourceError, match="'CSV UTF-8'"):
        source_of(pets)


def test_words_for_an_empty_cell_are_no_units_and_names_are_normalized(pets):
    decomposed = unicodedata.normalize("NFD", "Zoë")
    units = [
        "NA",
        "nan",
        "None",
        "<NA>",
        "NaT",
        "",
        "null",
        "7",
        "7.0",
        decomposed,
        "Zoë",
        "Zoë ",
        *["p"] * 8,
    ]
    source = source_of(with_column(pets, "unit", units))
    assert source.units == [*[None] * 7, "7", "7", *["Zoë"] * 3, *["p"] * 8]


def test_pictures_and_classes_with_decomposed_names_are_found(pets, tmp_path):
    for number in range(10):
        (tmp_path / f"pets/cat/{number}.png").rename(
            tmp_path / unicodedata.normalize("NFD", f"pets/cat/Zoë {number}.png")
        )
    labels = ["Bär", unicodedata.normalize("NFD", "Bär")]
    lines = [f"../pets/cat/Zoë {number}.png,{labels[number % 2]}" for number in range(10)]
    lines += [f"../pets/dog/{number}.png,dog" for number in range(10)]
    pets.write_text("\n".join(["file,label", *lines]))
    source = source_of(pets)
    assert source.classes == ["Bär", "dog"]
    assert len(loaded(source, tmp_path / "out").ids) == 20


def test_other_columns_are_left_out_with_a_warning(pets, capfd):
    source_of(with_column(with_column(pets, "age", range(20)), "units", range(20)))
    assert "ignored the columns age, units" in capfd.readouterr().err


def replaced(number, line):
    """A change of lines: another one in place of this number."""
    return lambda lines: [*lines[: number - 1], line, *lines[number:]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced(1, "path,label"), "line 1: no column 'file'"),
        (replaced(1, "file|label"), "line 2: 2 cells, but the header has 1"),
        (replaced(1, "file,label,label"), "line 1: the column 'label' is repeated"),
        (replaced(3, "../pets/cat/0.png"), "line 3: 1 cell, but the header has 2"),
        (replaced(3, '"../pets/cat/0.png,cat'), "line 21: unexpected end of data"),
        (replaced(3, "../pets/cat/0.png, "), "line 3, column 'label': is empty"),
        (replaced(3, ",cat"), "line 3, column 'file': is empty"),
        (
            lambda lines: [*lines[:2], ",cat", ",dog"],
            "2 faults.*line 3, column 'file'.*line 4, column 'file'",
        ),
        (
            replaced(3, "../pets/cat/0.png," + "7" * 5000),
            "line 3, column 'label': has 5,000 characters",
        ),
        (
            replaced(3, "../pets/cat,cat"),
            r"line 3, column 'file': [^\n]*/pets/cat\n",
        ),
        (
            replaced(3, "../pets/./dog/0.png,cat"),
            r"line 3, column 'file': ../pets/./dog/0.png .* line 2",
        ),
        (lambda lines: lines[:1], "has no lines below its header"),
        (lambda lines: [], "line 1: no column 'file' among"),
    ],
)
def test_all_faults_are_named_by_line_and_column(pets, change, message):
    rewritten(pets, change)
    if message.startswith("line 3, "):
        rewritten(pets, lambda lines: [*lines[:-1], "gone.png,cat"])
        message = rf"2 faults.*{message}.*line 21, column 'file': [^\n]*/lists/gone\.png"
    with pytest.raises(SourceError, match=f"(?s)pets.csv: .*{message}"):
        source_of(pets)


def test_a_picture_that_cannot_be_read_is_named_by_its_line(pets, tmp_path):
    (tmp_path / "pets/cat/0.png").write_bytes(b"no picture")
    with pytest.raises(
        SourceError,
        match=r"lists/pets\.csv, line 3, column 'file', \S+/pets/cat/0\.png",
    ):
        loaded(source_of(pets), tmp_path / "out")


def test_unreadable_pictures_are_skipped_with_on_bad_skip(pets, tmp_path, capfd):
    (tmp_path / "pets/cat/0.png").write_bytes(b"%PDF-1.4")
    with_column(pets, "unit", [f"p{number}" for number in range(20)])
    source = source_of(pets, on_bad="skip")
    assert source.units == ["p0", *(f"p{number}" for number in range(2, 20))]
    assert source.labels.tolist() == [1, *[1, 0] * 9]
    assert len(loaded(source, tmp_path / "out").ids) == 19
    err = capfd.readouterr().err
    assert "skipped 1 picture that cannot be used:\n  - " in err
    assert "pets.csv, line 3, " in err


def test_an_unknown_split_is_named(pets):
    with_column(pets, "split", ["dev"] * 20)
    with pytest.raises(SourceError, match=r"line 2, column 'split': 'dev' .*train, val"):
        source_of(pets)


def test_the_stamp_of_a_csv_file_includes_the_pictures(pets, tmp_path):
    """What was swapped on disk has been swapped in the data set: two files of one size and time of change."""
    from munkey.core.file_stamp import compute_stamp

    def state():
        return compute_stamp(*DATASETS["csv"].files(settings(pets)))

    states = [state()]
    cat = tmp_path / "pets/cat/0.png"
    dog = tmp_path / "pets/dog/0.png"
    os.utime(cat, ns=(0, 0))
    states.append(state())
    cat.rename(tmp_path / "cat.png")
    dog.rename(cat)
    states.append(state())
    (tmp_path / "cat.png").rename(dog)
    states.append(state())
    assert len(set(states)) == 4
    rewritten(pets, lambda lines: ["nothing"])
    assert state() not in states  # a file that its reader will refuse stands for itself


def test_paths_with_backslashes_are_named_once_and_other_names_of_val_are_val(pets):
    with_column(pets, "split", ["train", "Train", "validation", "VALID", "TEST"] * 4)
    assert counts(source_of(pets).splits) == [8, 8, 4]
    replace_in(pets, "/pets/", "\\pets\\")
    with pytest.raises(SourceError, match=r"1 fault\n.*20 paths with backslashes.* line 2"):
        source_of(pets)


def test_names_that_differ_in_case_or_zeros_are_told_about(pets, tmp_path, capsys):
    """As in the table of faulty inputs: cat and Cat were two classes, 7 and 0007 two persons, in silence."""
    with_column(pets, "unit", ["7", "0007", *(f"p{number}" for number in range(11, 29))])
    rewritten(pets, lambda lines: [line.replace(",cat", ",Dog ") for line in lines])
    source = source_of(pets)
    assert source.classes == ["Dog", "dog"]
    loaded(source, tmp_path / "out")
    said = capsys.readouterr().out
    assert "2 classes differ only" in said and "'Dog' and 'dog'" in said
    assert "2 units differ only" in said and "'0007' and '7'" in said
