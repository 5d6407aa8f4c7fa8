"""The one reader of CSV files that people bring: lists of pictures, requests, vectors."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.core.files import given_text

SEPARATORS = "\t;,"
MOST_FAULTS = 20  # lines of vectors that a message names
# what pandas names a column of row numbers: on writing, and on reading that
INDEX = (
    "",
    "unnamed: 0",
)


class TableError(ValueError):
    """A CSV file cannot be used as it is. `faults` holds all that is wrong, by line."""

    def __init__(self, path: str | Path, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(f"{path}, {fault}" for fault in faults))


@dataclass(frozen=True)
class Table:
    """A CSV file. header: names as written; lines: number in the file, and a cell for each name.

    There are no blanks around names and cells. `names` are those of the header in lower case, by
    which columns are found.
    """

    header: tuple[str, ...]
    lines: tuple[tuple[int, tuple[str, ...]], ...]

    @property
    def names(self) -> list[str]:
        return [name.lower() for name in self.header]


def read_table(path: str | Path, *, trimmed: bool = True) -> Table:
    """A CSV file with a header; `-` is standard input. Raises as `table_of` and `given_text`."""
    return table_of(path, given_text(path), trimmed=trimmed)


def table_of(path: str | Path, text: str, *, trimmed: bool = True) -> Table:
    """The text of a CSV file with a header.

    Cells are parted by tabs, else semicolons, else commas, whichever the header has first. A mark
    of the byte order and a line `sep=;`, as Excel writes them, are passed over, and so are lines
    whose cells are all empty, and a first column without a name, the index that pandas writes.

    trimmed: whether blanks around cells are left out; those around names always are. Raises
    TableError that lists all lines that do not fit the header. A file that holds nothing has no
    header.
    """
    lines = cells_of(path, text)
    if not lines:
        return Table((), ())
    (_, first), *others = lines
    header = [name.strip() for name in first]
    start = 1 if len(header) > 1 and header[0].lower() in INDEX else 0
    names = [name.lower() for name in header[start:]]
    faults = [
        f"line 1: two columns {name!r}" for name in dict.fromkeys(names) if names.count(name) > 1
    ]
    checked_lines: list[tuple[int, tuple[str, ...]]] = []
    for number, cells in others:
        if len(cells) != len(header):
            faults.append(f"line {number}: {len(cells)} cells, but the header has {len(header)}")
        checked_lines.append(
            (number, tuple(cell.strip() if trimmed else cell for cell in cells[start:]))
        )
    if faults:
        raise TableError(path, faults)
    return Table(tuple(header[start:]), tuple(checked_lines))


def cells_of(path: str | Path, text: str) -> list[tuple[int, list[str]]]:
    """The lines of a CSV file that are not empty: number and cells. Raises TableError."""
    start = 0
    separator = ""
    first, _, rest = text.partition("\n")
    if first.strip().lower() in [f"sep={mark}" for mark in SEPARATORS]:
        separator = first.strip()[-1]
        text = rest
        start = 1
    separator = separator or _separator(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    lines: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                lines.append((reader.line_num + start, cells))
    except csv.Error as error:
        raise TableError(path, [f"line {reader.line_num + start}: {error}"]) from error
    return lines


def _separator(text: str) -> str:
    """The first of tab, semicolon and comma that parts the first line that is not empty."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    for separator in SEPARATORS:
        if len(next(csv.reader([first], delimiter=separator), [])) > 1:
            return separator
    return ","


def read_vectors(path: str | Path, width: int, names: Sequence[str] | None = None) -> np.ndarray:
    """Vectors (N, width) of a CSV file, as pandas writes them or without a header.

    A first line in which no cell is a number, or that numbers the columns from 0 on, is the
    header, and a first column without a name there is the index. names: of the columns, by which
    they are found where there is a header; others are passed over. A comma is a decimal point
    where semicolons part the cells.

    Raises ValueError that names the lines and columns that do not fit.
    """
    lines = cells_of(path, given_text(path))
    columns = list(range(width))
    if len(lines) > 1 and _is_header(lines[0][1], names):
        header = [name.strip() for name in lines[0][1]]
        has_index = header[0].lower() in INDEX
        if names is None:
            columns = list(range(int(has_index), len(header)))
        else:
            if absent := [name for name in names if name not in header]:
                raise TableError(
                    path,
                    [
                        f"line 1: no column {', '.join(map(repr, absent[:5]))} among those of its"
                        " header"
                    ],
                )
            columns = [header.index(name) for name in names]
        lines = lines[1:]
        if len(columns) != width:
            raise TableError(path, [f"line 1: {len(columns)} columns, but {width} are needed"])
        count = len(header)
    else:
        count = width
    faults: list[str] = []
    rows: list[list[float]] = []
    for number, cells in lines:
        if len(cells) != count:
            faults.append(f"line {number}: {len(cells)} cells, but {count} are needed")
            continue
        try:
            rows.append([_number(cells[column]) for column in columns])
        except ValueError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        raise TableError(path, faults[:MOST_FAULTS])
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _is_header(cells: Sequence[str], names: Sequence[str] | None) -> bool:
    """Whether the first line names columns. A vector with a gap or a slip is refused instead.

    names: of the columns, where they are known.
    """
    header = [cell.strip() for cell in cells]
    if names is not None and set(names) <= set(header):
        return True
    if header[0].lower() in INDEX and len(header) > 1:
        header = header[1:]
        if all(name.isdecimal() for name in header):
            return True
    return header == [str(number) for number in range(len(header))] or not any(
        map(_is_number, header)
    )


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return cell == ""  # a gap
    return True


def _number(cell: str) -> float:
    """A number; one with a decimal comma can only stand where no comma parts cells."""
    try:
        return float(cell)
    except ValueError:
        return float(cell.replace(",", ".", 1))
