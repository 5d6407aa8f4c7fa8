"""Reader of all CSV files from users: lists of pictures, requests, vectors."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.core.console import pluralize
from munkey.core.files import read_user_text

SEPARATORS = "\t;,"
MAX_FAULTS = 20  # faulty lines listed in a message
# Header of the index that pandas writes, and what pandas calls it after reading it back.
INDEX = ("", "unnamed: 0")


class TableError(ValueError):
    """A CSV file cannot be used. `faults` lists all faults, by line."""

    def __init__(self, path: str | Path, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(f"{path}, {fault}" for fault in faults))


@dataclass(frozen=True)
class Table:
    """A CSV file: its column names as written, and the number and cells of each line."""

    header: tuple[str, ...]
    lines: tuple[tuple[int, tuple[str, ...]], ...]

    @property
    def names(self) -> list[str]:
        """The column names in lower case."""
        return [name.lower() for name in self.header]


def read_table(path: str | Path, *, strip: bool = True) -> Table:
    """Read a CSV file with a header; `-` is standard input.

    Raises the same errors as `parse_table` and `read_user_text`.
    """
    return parse_table(path, read_user_text(path), strip=strip)


def parse_table(path: str | Path, text: str, *, strip: bool = True) -> Table:
    """Parse the text of a CSV file with a header.

    The separator is the first of tab, semicolon and comma that splits the header, or that of a line
    such as `sep=;`, which Excel writes. Empty rows and the unnamed index of pandas are skipped.
    Without `strip`, cells keep surrounding spaces.

    Raises TableError, which lists rows of another length and repeated columns.
    """
    lines = split_cells(path, text)
    if not lines:
        return Table((), ())
    _, first_cells = lines[0]
    header = [name.strip() for name in first_cells]
    if len(header) > 1 and header[0].lower() in INDEX:
        first_column = 1
    else:
        first_column = 0
    faults: list[str] = []
    name_counts = Counter(name.lower() for name in header[first_column:])
    for name, count in name_counts.items():
        if count > 1:
            faults.append(f"line 1: the column {name!r} is repeated")
    numbered_rows: list[tuple[int, tuple[str, ...]]] = []
    for number, cells in lines[1:]:
        if len(cells) != len(header):
            fault = f"{pluralize(len(cells), 'cell')}, but the header has {len(header)}"
            faults.append(f"line {number}: {fault}")
        kept_cells = cells[first_column:]
        if strip:
            kept_cells = [cell.strip() for cell in kept_cells]
        numbered_rows.append((number, tuple(kept_cells)))
    if faults:
        raise TableError(path, faults)
    return Table(tuple(header[first_column:]), tuple(numbered_rows))


def split_cells(path: str | Path, text: str) -> list[tuple[int, list[str]]]:
    """Split the text of a CSV file into rows: the number and cells of each that is not empty.

    Raises TableError if the text is not valid CSV.
    """
    skipped_lines = 0
    first_line, _, remaining_text = text.partition("\n")
    if first_line.strip().lower() in [f"sep={mark}" for mark in SEPARATORS]:
        separator = first_line.strip()[-1]
        text = remaining_text
        skipped_lines = 1
    else:
        separator = _find_separator(text)
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
    """Return the first of tab, semicolon and comma that splits the first non-empty line."""
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    for separator in SEPARATORS:
        for cells in csv.reader([first_line], delimiter=separator):  # one line, or none
            if len(cells) > 1:
                return separator
    return ","


def read_vectors(path: str | Path, width: int, names: Sequence[str] | None = None) -> np.ndarray:
    """Read vectors (N, width) from a CSV file, with or without a header. Decimal commas are read.

    `names` are the columns to read, in this order; by default, all but an index. Raises TableError,
    which lists the first faulty lines.
    """
    lines = split_cells(path, read_user_text(path))
    columns = list(range(width))
    cell_count = width
    if len(lines) > 1 and _is_header(lines[0][1], names):
        header = [name.strip() for name in lines[0][1]]
        lines = lines[1:]
        columns = _find_columns(path, header, names)
        if len(columns) != width:
            raise TableError(path, [f"line 1: {len(columns)} columns, but {width} are needed"])
        cell_count = len(header)
    faults: list[str] = []
    rows: list[list[float]] = []
    for number, cells in lines:
        if len(cells) != cell_count:
            fault = f"{pluralize(len(cells), 'cell')}, but {cell_count} are needed"
            faults.append(f"line {number}: {fault}")
            continue
        try:
            rows.append([_parse_number(cells[column]) for column in columns])
        except ValueError as error:
            faults.append(f"line {number}: {error}")
    if faults:
        raise TableError(path, faults[:MAX_FAULTS])
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _find_columns(path: str | Path, header: list[str], names: Sequence[str] | None) -> list[int]:
    """Return the positions of the named columns; by default, of all but an index."""
    if names is None:
        first_column = 1 if header[0].lower() in INDEX else 0
        return list(range(first_column, len(header)))
    missing_names = [name for name in names if name not in header]
    if missing_names:
        examples = ", ".join(map(repr, missing_names[:5]))
        raise TableError(path, [f"line 1: no column {examples} in the header"])
    return [header.index(name) for name in names]


def _is_header(cells: Sequence[str], names: Sequence[str] | None) -> bool:
    """Return whether the first row has all of `names`, or pandas' column numbers, or no number.

    A row with both numbers and words is a vector with a typo, which is refused later.
    """
    header = [cell.strip() for cell in cells]
    if names is not None and set(names) <= set(header):
        return True
    has_index = header[0].lower() in INDEX and len(header) > 1
    if has_index:
        header = header[1:]
        if all(name.isdecimal() for name in header):
            return True
    # With one or two columns, 0 and 1 may as well be the first row.
    if len(header) > 2 and header == [str(number) for number in range(len(header))]:
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
    """Parse a number with a decimal point or comma. Raises ValueError if it is not a number."""
    try:
        return float(cell)
    except ValueError:
        return float(cell.replace(",", ".", 1))
