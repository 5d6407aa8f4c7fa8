"""CSV files as spreadsheets, pandas and people write them are read alike; what cannot be read says what to do."""

import numpy as np
import pandas as pd
import pytest

from munkey.data.intake.csv_tables import TableError, read_table, read_vectors

LINES = ((2, ("a/0.png", "p1")), (3, ("b;c, d.png", "")))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_marks_and_ends_of_lines_change_nothing(tmp_path, separator, mark, end):
    lines = [["File", " Unit "], [" a/0.png", "p1 "], ['"b;c, d.png"', ""], ["", " "]]
    text = mark + end.join(separator.join(cells) for cells in lines) + end
    (tmp_path / "t.csv").write_bytes(text.encode())
    table = read_table(tmp_path / "t.csv")
    assert (table.header, table.names, table.lines) == (("File", "Unit"), ["file", "unit"], LINES)


def test_a_line_that_tells_excel_the_separator_is_passed_over(tmp_path):
    (tmp_path / "t.csv").write_text("sep=;\nfile;unit\na,b;c\n")
    assert read_table(tmp_path / "t.csv").lines == ((3, ("a,b", "c")),)


def test_names_in_quotes_do_not_decide_what_parts_cells(tmp_path):
    (tmp_path / "t.csv").write_text('"a;b;c",d\n1,2\n')
    assert read_table(tmp_path / "t.csv").header == ("a;b;c", "d")


@pytest.mark.parametrize("again", [False, True])
def test_the_index_of_pandas_is_left_out(tmp_path, again):
    frame = pd.DataFrame({"file": ["a.png"], "unit": [np.nan]})
    frame.to_csv(tmp_path / "t.csv")
    if again:  # read with its index as a column, and written without another one
        pd.read_csv(tmp_path / "t.csv").to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv")
    assert table.header == ("file", "unit") and table.lines == ((2, ("a.png", "")),)


def test_only_empty_lines_and_no_line_below_the_header(tmp_path):
    (tmp_path / "t.csv").write_text("\n\nfile,unit\n\n , \n")
    assert read_table(tmp_path / "t.csv").header == ("file", "unit")
    assert read_table(tmp_path / "t.csv").lines == ()
    (tmp_path / "t.csv").write_text("\n")
    assert read_table(tmp_path / "t.csv").header == ()


def test_all_lines_that_do_not_fit_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,A\n1,2,3\n1\n\n1,2\n")
    with pytest.raises(TableError) as refused:
        read_table(tmp_path / "t.csv")
    assert refused.value.faults == [
        "line 1: the column 'a' is repeated",
        "line 3: 1 cell, but the header has 3",
        "line 5: 2 cells, but the header has 3",
    ]


def test_blanks_stay_where_they_are_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("a , b\n x,y \n")
    table = read_table(tmp_path / "t.csv", strip=False)
    assert table.header == ("a", "b") and table.lines == ((2, (" x", "y ")),)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-16", "It may be in UTF-16"),
        ("utf-16-le", "It may be in UTF-16"),
        ("latin-1", r"line 2\). It may be in lat"),
    ],
)
def test_other_encodings_are_refused_with_what_to_do(tmp_path, encoding, said):
    (tmp_path / "t.csv").write_bytes("file,unit\na.png,Zoë\n".encode(encoding))
    with pytest.raises(
        ValueError, match=f"t.csv: is not text in UTF-8 .*{said}.*Save it as 'CSV UTF-8'.*iconv"
    ):
        read_table(tmp_path / "t.csv")


FRAME = pd.DataFrame([[0.5, 1.0, -2.0], [3.25, 4.0, 5.0]])


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize(
    "how", [{}, {"sep": ";", "decimal": ","}, {"sep": "\t", "encoding": "utf-8-sig"}]
)
@pytest.mark.parametrize("columns", [None, ["a", "b", "c"]])
def test_vectors_as_pandas_writes_them(tmp_path, index, how, columns):
    frame = FRAME if columns is None else FRAME.set_axis(columns, axis=1)
    frame.to_csv(tmp_path / "v.csv", index=index, **how)
    np.testing.assert_array_equal(read_vectors(tmp_path / "v.csv", 3), FRAME.to_numpy())


@pytest.mark.parametrize("how", [{}, {"sep": ";", "decimal": ","}])
def test_vectors_without_a_header(tmp_path, how):
    FRAME.to_csv(tmp_path / "v.csv", index=False, header=False, **how)
    np.testing.assert_array_equal(read_vectors(tmp_path / "v.csv", 3), FRAME.to_numpy())
    (tmp_path / "v.csv").write_text("0,1,2\n")  # no line below it: it is a vector
    np.testing.assert_array_equal(read_vectors(tmp_path / "v.csv", 3), [[0, 1, 2]])


def test_columns_are_found_by_the_names_that_the_model_knows(tmp_path):
    frame = FRAME.set_axis(["a", "b", "c"], axis=1).assign(person="p1")[["c", "person", "a", "b"]]
    frame.to_csv(tmp_path / "v.csv")
    np.testing.assert_array_equal(
        read_vectors(tmp_path / "v.csv", 3, ["a", "b", "c"]), FRAME.to_numpy()
    )
    with pytest.raises(TableError, match="line 1: no column 'd' in the header"):
        read_vectors(tmp_path / "v.csv", 3, ["a", "b", "d"])


def test_lines_that_are_no_vectors_are_named(tmp_path):
    (tmp_path / "v.csv").write_text("a,b,c\n1,2,3\n\n1,2\n1,x,3\n")
    with pytest.raises(TableError) as refused:
        read_vectors(tmp_path / "v.csv", 3)
    assert refused.value.faults == [
        "line 4: 2 cells, but 3 are needed",
        "line 5: could not convert string to float: 'x'",
    ]
    with pytest.raises(TableError, match="line 1: 3 columns, but 4 are needed"):
        read_vectors(tmp_path / "v.csv", 4)


@pytest.mark.parametrize("first", ["1,,3", ",1.5,2", "1,x,3", ",,2"])
def test_a_first_vector_with_a_gap_is_named_and_never_passed_over_as_a_header(tmp_path, first):
    (tmp_path / "v.csv").write_text(f"{first}\n1,2,3\n")
    with pytest.raises(TableError, match="line 1: could not convert string to float"):
        read_vectors(tmp_path / "v.csv", 3)


def test_a_named_index_beside_columns_that_are_known_by_name_is_passed_over(tmp_path):
    FRAME.set_axis(["0.1", "0.2", "0.3"], axis=1).to_csv(tmp_path / "v.csv", index_label="id")
    np.testing.assert_array_equal(
        read_vectors(tmp_path / "v.csv", 3, ["0.1", "0.2", "0.3"]), FRAME.to_numpy()
    )
