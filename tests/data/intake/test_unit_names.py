"""A unit has one name, however a table, a file or a person spells it; an empty cell is no unit."""

import unicodedata

import numpy as np
import pandas as pd
import pytest

from munkey.data.intake.unit_names import (
    find_similar_names,
    find_unit,
    format_large_units_warning,
    format_similar_names_warning,
    match_classes,
    parse_id,
    unit_name,
    unit_names,
)


@pytest.mark.parametrize(
    "empty",
    [
        None,
        "",
        "  ",
        "NA",
        "NaN",
        "nan",
        "NaT",
        "None",
        "<NA>",
        "null",
        " NA ",
        b"NA",
        float("nan"),
        np.float32("nan"),
        pd.NA,
        pd.NaT,
        np.datetime64("NaT"),
    ],
)
def test_an_empty_cell_is_not_a_unit_in_any_spelling(empty):
    assert unit_name(empty) is None


def test_a_unit_is_found_as_people_type_it_and_a_name_that_means_no_unit_finds_none():
    units = {"7", "Zo\u00eb"}
    assert [find_unit(name, units) for name in ("7.0", " Zoe\u0308", "NA")] == [
        "7",
        "Zo\u00eb",
        None,
    ]


@pytest.mark.parametrize(
    ("classes", "labels", "expected"),
    [
        (["1", "2", "3"], [2, 2.0, " 2", "2.0", 0, True], [1, 1, 1, None, None, None]),
        ([1, 2, 3], [2, 2.0, " 2", "2.0", 0, True], [1, 1, 1, None, None, None]),
        ([1.0, 0.5], ["1.0", "1", 1, "0.5", 0.5], [0, 0, 0, 1, 1]),
        ([False, True], [True, "True", 1, 0], [1, 1, None, None]),
        ([None, "NA"], ["None", None, " NA", float("nan")], [None, None, 1, None]),
        (["Zo\u00eb", "07"], ["Zoe\u0308 ", 7], [0, None]),
    ],
)
def test_a_number_and_its_text_mean_the_same_class(classes, labels, expected):
    assert match_classes(labels, classes) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        (" 007\n", 7),
        ("7.0", 7),
        ("9007199254740992", 2**53),
        ("9007199254740992.0", None),
        ("7.5", None),
        ("-7", None),
        ("\u0667", None),  # a digit, but not of ASCII
        ("1" * 20, None),
        ("", None),
    ],
)
def test_an_id_is_read_as_tables_write_it(text, expected):
    assert parse_id(text) == expected


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        (7, "7"),
        (7.0, "7"),
        ("7.0", "7"),
        (np.float64(7), "7"),
        (np.int32(7), "7"),
        (-0.0, "0"),
        (1e16, "1" + "0" * 16),
        (7.5, "7.5"),
        ("007", "007"),
        ("007.0", "007.0"),
        ("1.10", "1.10"),
        (float("inf"), "inf"),
        (True, "True"),
        (b"p1", "p1"),
        (np.str_(" p1\n"), "p1"),
        ("Anna  K.", "Anna  K."),
        ("Nan", "Nan"),
        ("Na", "Na"),
    ],
)
def test_a_name_is_trimmed_and_a_whole_number_is_written_as_one(cell, name):
    assert unit_name(cell) == name


def test_decomposed_letters_are_composed():
    assert unit_name(unicodedata.normalize("NFD", "Zoë")) == "Zoë"


@pytest.mark.parametrize("dtype", ["string", "object", "Int64", "float64"])
def test_a_column_of_pandas_with_gaps_has_names_and_none(dtype):
    column = pd.Series([7, None, 8], dtype="Int64").astype(dtype)
    assert unit_names(column) == ["7", None, "8"]


def test_the_warning_names_units_that_are_much_larger_than_others_the_largest_first():
    assert format_large_units_warning(["a"] * 10 + [None] * 90) == ""
    assert "'a' (11)" in format_large_units_warning(["a"] * 11 + [None] * 90)
    assert format_large_units_warning(["a"] * 20 + ["b"] * 30 + ["c"] * 25) == ""  # three persons
    words = format_large_units_warning(
        ["a"] * 30 + ["b"] * 40 + ["c"] * 11 + [*"defghijklmnopqrstuv"]
    )
    assert "3 units, e.g. 'b' (40) and 'a' (30)" in words
    assert "leave the cell empty" in words


def test_similar_names_differ_by_case_spaces_or_one_letter():
    names = ["Anna K.", "Bob", "bob", "Zoë", "Bobby"]
    cases = {
        "ANNA k.": ["Anna K."],
        "AnaK.": ["Anna K."],
        "Annna K.": ["Anna K."],
        "Amna K.": ["Anna K."],
        "nAna K.": ["Anna K."],
        "BOB": ["Bob", "bob"],
        "Bobb": ["Bob", "bob", "Bobby"],
        "Zoe\u0308 ": ["Zoë"],
        "Clara": [],
        "x" * 500: [],
    }
    assert find_similar_names(cases, names) == cases


def test_names_that_are_equal_as_numbers_are_similar():
    """As tables lose the zeros at the start, and pandas adds some at the end."""
    cases = {"7": ["0007"], "33.0": ["0033"], "P-12": ["p-012"], "010": ["10"], "2.5": []}
    assert find_similar_names(cases, ["0007", "0033", "p-012", "10", "2.005", "8"]) == cases


def test_names_that_differ_in_case_spaces_or_zeros_alone_are_described_together():
    warning = format_similar_names_warning(["cat", "Cat", "dog", "07", "7"], "classes")
    assert warning.startswith("4 classes")
    assert "'07' and '7'; 'Cat' and 'cat'" in warning
    assert format_similar_names_warning(["cat", "dog"], "classes") == ""
