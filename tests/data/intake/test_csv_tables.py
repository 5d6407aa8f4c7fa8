"""CSV files as spreadsheets, pandas and people write them are read alike; what cannot be read says what to do."""

import numpy as np
import pandas as pd
import pytest

from munkey.data.intake.csv_tables import TableError, read_table, read_vectors

LINES = ((2, ("a/0.png", "p1")), (3, ("b;c, d.png", "")))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tables_with_any_separator_mark_and_end_of_line_are_read_the_same(
    tmp_path, separator, mark, end
):
    lines = [["File", " Unit "], [" a/0.png", "p1 "], ['"b;c, d.png"', ""], ["", " "]]
    text = mark + end.join(separator.join(cells) for cells in lines) + end
    (tmp_path / "t.csv").write_bytes(text.encode())
    table = read_table(tmp_path / "t.csv")
    assert (table.header, table.names, table.lines) == (("File", "Unit"), ["file", "unit"], LINES)


def test_a_line_with_the_separator_for_excel_is_skipped(tmp_path):
    (tmp_path / "t.csv").write_text("sep=;\nfile;unit\na,b;c\n")
    assert read_table(tmp_path / "t.csv").lines == ((3, ("a,b", "c")),)


def test_separators_in_quotes_are_not_separators(tmp_path):
    (tmp_path / "t.csv").write_text('"a;b;c",d\n1,2\n')
    assert read_table(tmp_path / "t.csv").header == ("a;b;c", "d")


@pytest.mark.parametrize("again", [False, True])
def test_the_index_of_pandas_is_ignored(tmp_path, again):
    frame = pd.DataFrame({"file": ["a.png"], "unit": [np.nan]})
    frame.to_csv(tmp_path / "t.csv")
    if again:  # read with its index as a column, and written without another one
        pd.read_csv(tmp_path / "t.csv").to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv")
    assert table.header == ("file", "unit")
    assert table.lines == ((2, ("a.png", "")),)


def test_empty_lines_are_ignored(tmp_path):
    (tmp_path / "t.csv").write_text("\n\nfile,unit\n\n , \n")
    assert read_table(tmp_path / "t.csv").header == ("file", "unit")
    assert read_table(tmp_path / "t.csv").lines == ()
    (tmp_path / "t.csv").write_text("\n")
    assert read_table(tmp_path / "t.csv").header == ()


def test_all_lines_with_another_number_of_cells_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,A\n1,2,3\n1\n\n1,2\n")
    with pytest.raises(TableError) as refused:
        read_table(tmp_path / "t.csv")
    repeated, short, another = refused.value.faults
    assert repeated.startswith("line 1: the column 'a'")
    assert short.startswith("line 3: 1 cell")
    assert another.startswith("line 5: 2 cells")


def test_blanks_are_kept_without_strip(tmp_path):
    (tmp_path / "t.csv").write_text("a , b\n x,y \n")
    table = read_table(tmp_path / "t.csv", strip=False)
    assert table.header == ("a", "b")
    assert table.lines == ((2, (" x", "y ")),)


@pytest.mark.parametrize(
    ("encoding", "hint"), [("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"), ("latin-1", "lat")]
)
def test_other_encodings_are_refused_by_name(tmp_path, encoding, hint):
    (tmp_path / "t.csv").write_bytes("file,unit\na.png,Zoë\n".encode(encoding))
    with pytest.raises(ValueError, match=f"t.csv: .*{hint}.*'CSV UTF-8'"):
        read_table(tmp_path / "t.csv")


FRAME = pd.DataFrame([[0.5, 1.0, -2.0], [3.25, 4.0, 5.0]])


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize(
    "how", [{}, {"sep": ";", "decimal": ","}, {"sep": "\t", "encoding": "utf-8-sig"}]
)
@pytest.mark.parametrize("columns", [None, ["a", "b", "c"]])
def test_vectors_are_read_as_pandas_writes_them(tmp_path, index, how, columns):
    frame = FRAME if columns is None else FRAME.set_axis(columns, axis=1)
    frame.to_csv(tmp_path / "v.csv", index=index, **how)
    np.testing.assert_array_equal(read_vectors(tmp_path / "v.csv", 3), FRAME.to_numpy())


@pytest.mark.parametrize("how", [{}, {"sep": ";", "decimal": ","}])
def test_vectors_are_read_without_a_header(tmp_path, how):
    FRAME.to_csv(tmp_path / "v.csv", index=False, header=False, **how)
    np.testing.assert_array_equal(read_vectors(tmp_path / "v.csv", 3), FRAME.to_numpy())
    (tmp_path / "v.csv").write_text("0,1,2\n")  # no line below it: it is a vector
    np.testing.assert_array_equal(read_vectors(tmp_path / "v.csv", 3), [[0, 1, 2]])


def test_columns_are_found_by_their_names_in_any_order(tmp_path):
    frame = FRAME.set_axis(["a", "b", "c"], axis=1).assign(person="p1")[["c", "person", "a", "b"]]
    frame.to_csv(tmp_path / "v.csv")
    np.testing.assert_array_equal(
        read_vectors(tmp_path / "v.csv", 3, ["a", "b", "c"]), FRAME.to_numpy()
    )
    with pytest.raises(TableError, match="line 1: no column 'd' in the header"):
        read_vectors(tmp_path / "v.csv", 3, ["a", "b", "d"])


def test_lines_without_a_vector_are_named(tmp_path):
    (tmp_path / "v.csv").write_text("a,b,c\n1,2,3\n\n1,2\n1,x,3\n")
    with pytest.raises(TableError) as refused:
        read_vectors(tmp_path / "v.csv", 3)
    short, word = refused.value.faults
    assert short.startswith("line 4: 2 cells")
    assert word.startswith("line 5: ")
    assert "'x'" in word
    with pytest.raises(TableError, match=r"line 1: 3 columns.* 4"):
        read_vectors(tmp_path / "v.csv", 4)


@pytest.mark.parametrize("first", ["1,,3", ",1.5,2", "1,x,3", ",,2"])
def test_a_first_vector_with_a_gap_is_refused_and_not_taken_for_a_header(tmp_path, first):
    (tmp_path / "v.csv").write_text(f"{first}\n1,2,3\n")
    with pytest.raises(TableError, match="line 1: could not convert"):
        read_vectors(tmp_path / "v.csv", 3)


def test_a_named_index_beside_named_columns_is_ignored(tmp_path):
    FRAME.set_axis(["0.1", "0.2", "0.3"], axis=1).to_csv(tmp_path / "v.csv", index_label="id")
    np.testing.assert_array_equal(
        read_vectors(tmp_path / "v.csv", 3, ["0.1", "0.2", "0.3"]), FRAME.to_numpy()
    )


@pytest.mark.parametrize(("text", "width"), [("0,1\n5,6\n", 2), ("0\n5\n", 1)])
def test_a_first_row_of_one_or_two_numbers_is_a_vector(tmp_path, text, width):
    (tmp_path / "v.csv").write_text(text)
    assert len(read_vectors(tmp_path / "v.csv", width)) == 2
