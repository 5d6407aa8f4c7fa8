"""The one reader of CSV files that people bring: lists of pictures, requests, vectors."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.core.files import read_user_text

SEPARATORS = "\t;,"
MOST_FAULTS = 20  # lines of vectors that a message names
INDEX = ("", "unnamed: 0")  # the header of the index that pandas writes, and reads again


class TableError(ValueError):
    """A CSV file cannot be used as it is. `faults` holds all that is wrong, by line."""

    def __init__(self, path: str | Path, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(f"{path}, {fault}" for fault in faults))


@dataclass(frozen=True)
class Table:
    """A CSV file.

    There are no blanks around names and cells.

    Attributes
    ----------
    header
        Names as written.
    lines
        Number in the file, and a cell for each name.
    """

    header: tuple[str, ...]
    lines: tuple[tuple[int, tuple[str, ...]], ...]

    @property
    def names(self) -> list[str]:
        """The names in lower case, by which callers find columns."""
        return [name.lower() for name in self.header]


def read_table(path: str | Path, *, strip: bool = True) -> Table:
    """Read a CSV file with a header; `-` is standard input.

    Raises as `parse_table`, `read_user_text`.
    """
    return parse_table(path, read_user_text(path), strip=strip)


def parse_table(path: str | Path, text: str, *, strip: bool = True) -> Table:
    """Parse the text of a CSV file with a header.

    The separator is the first of tab, semicolon and comma that splits the header. These are
    skipped: a line `sep=;`, as Excel writes it, lines of empty cells, and a first column without a
    name, the index that pandas writes. An empty file has no header.

    Raises TableError that lists all lines that do not fit the header.

    Parameters
    ----------
    strip
        Whether to strip blanks around cells; those around names always are.
    """
    lines = split_cells(path, text)
    if not lines:
        return Table((), ())
    (_, first_cells), *data_lines = lines
    header = [name.strip() for name in first_cells]
    start = 1 if len(header) > 1 and header[0].lower() in INDEX else 0
    names = [name.lower() for name in header[start:]]
    faults = [
        f"line 1: two columns {name!r}" for name in dict.fromkeys(names) if names.count(name) > 1
    ]
    checked_lines: list[tuple[int, tuple[str, ...]]] = []
    for number, cells in data_lines:
        if len(cells) != len(header):
            faults.append(f"line {number}: {len(cells)} cells, but the header has {len(header)}")
        checked_lines.append(
            (number, tuple(cell.strip() if strip else cell for cell in cells[start:]))
        )
    if faults:
        raise TableError(path, faults)
    return Table(tuple(header[start:]), tuple(checked_lines))


def split_cells(path: str | Path, text: str) -> list[tuple[int, list[str]]]:
    """Split the text of a CSV file into lines that are not empty: number and cells of each.

    Raises TableError.
    """
    skipped_lines = 0
    separator = ""
    first_line, _, remaining_text = text.partition("\n")
    if first_line.strip().lower() in [f"sep={mark}" for mark in SEPARATORS]:
        separator = first_line.strip()[-1]
        text = remaining_text
        skipped_lines = 1
    separator = separator or _find_separator(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    lines: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                lines.append((reader.line_num + skipped_lines, cells))
    except csv.Error as error:
        raise TableError(path, [f"line {reader.line_num + skipped_lines}: {error}"]) from error
    return lines


def _find_separator(text: str) -> str:
    """Return the first of tab, semicolon and comma that splits the first line that is not empty."""
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    for separator in SEPARATORS:
        if len(next(csv.reader([first_line], delimiter=separator), [])) > 1:
            return separator
    return ","


def read_vectors(path: str | Path, width: int, names: Sequence[str] | None = None) -> np.ndarray:
    """Read vectors (N, width) from a CSV file, as pandas writes them or without a header.

    A comma in a number is a decimal point, which only a file with another separator can have.

    Raises ValueError that names the lines and columns that do not fit.

    Parameters
    ----------
    names
        Of the columns to take, in this order, if the file has a header (`_is_header`); other
        columns are ignored, and so is an index.
    """
    lines = split_cells(path, read_user_text(path))
    columns = list(range(width))
    if len(lines) > 1 and _is_header(lines[0][1], names):
        header = [name.strip() for name in lines[0][1]]
        has_index = header[0].lower() in INDEX
        if names is None:
            columns = list(range(int(has_index), len(header)))
        else:
            missing_names = [name for name in names if name not in header]
            if missing_names:
                raise TableError(
                    path,
                    [
                        f"line 1: no column {', '.join(map(repr, missing_names[:5]))} among those of its"
                        " header"
                    ],
                )
            columns = [header.index(name) for name in names]
        lines = lines[1:]
        if len(columns) != width:
            raise TableError(path, [f"line 1: {len(columns)} columns, but {width} are needed"])
        cell_count = len(header)
    else:
        cell_count = width
    faults: list[str] = []
    rows: list[list[float]] = []
    for number, cells in lines:
        if len(cells) != cell_count:
            faults.append(f"line {number}: {len(cells)} cells, but {cell_count} are needed")
            continue
        try:
            rows.append([_parse_number(cells[column]) for column in columns])
        except ValueError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        raise TableError(path, faults[:MOST_FAULTS])
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _is_header(cells: Sequence[str], names: Sequence[str] | None) -> bool:
    """Return whether the first line of a file names its columns, and is not a vector itself.

    It names them if all of `names` are in it, if it counts them from 0, as pandas does, or if none
    of its cells is a number. A line with both numbers and words is a vector with a typing error,
    which is refused later.
    """
    header = [cell.strip() for cell in cells]
    if names is not None and set(names) <= set(header):
        return True
    has_index = header[0].lower() in INDEX and len(header) > 1
    if has_index:
        header = header[1:]
        if all(name.isdecimal() for name in header):
            return True
    if header == [str(number) for number in range(len(header))]:
        return True
    return not any(map(_is_number_or_gap, header))


def _is_number_or_gap(cell: str) -> bool:
    if cell == "":
        return True
    try:
        _parse_number(cell)
    except ValueError:
        return False
    return True


def _parse_number(cell: str) -> float:
    """Parse a number, also with a decimal comma. A file separated by commas has no such cell."""
    try:
        return float(cell)
    except ValueError:
        return float(cell.replace(",", ".", 1))
