"""Arguments that several commands share, files of requests, and checks of output files."""

import os
import re
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from munkey.core.console import UNPRINTABLE
from munkey.settings import OnBad

if TYPE_CHECKING:
    from munkey.deploy.predictor import Predictor

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="An exported model.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ids = Annotated[
    str | None, typer.Option("--ids", metavar="1,2,3", help="Ids, separated by commas.")
]
Pictures = Annotated[
    list[Path],
    typer.Argument(
        metavar="PICTURE...", help="Picture files, or folders of them.", show_default=False
    ),
]
OnBadPictures = Annotated[
    OnBad,
    typer.Option(
        "--on-bad",
        help="What to do with unreadable pictures. skip: leave them out, and list them.",
        metavar="raise|skip",
    ),
]
Page = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Also write a web page with pictures.")
]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, help="Wait so long for another process that writes the model."
    ),
]
Names = list[str] | None
Classes = Annotated[
    Names, typer.Option("--class", metavar="NAME", help="A class. May be repeated.")
]
Units = Annotated[
    Names, typer.Option("--unit", metavar="NAME", help="A unit, e.g. a person. May be repeated.")
]
Files = Annotated[
    Names,
    typer.Option(
        "--files", metavar="PICTURE...", help="Source files, folders, or quoted patterns."
    ),
]
# A shell turns `--files *` into one option and further arguments.
MoreFiles = Annotated[Names, typer.Argument(metavar="PICTURE", hidden=True)]

# Characters that begin a formula in a spreadsheet, also in full width; an apostrophe prevents that.
FORMULA_STARTS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20'")
INVISIBLE = re.compile(rf"{UNPRINTABLE.pattern}|[\t\n]")
WORD = re.compile(r"[^\s,]+")  # words are separated by commas or white space
QUOTED_CELL = re.compile(r"'((?:[^\\]|\\\\|\\u[0-9a-f]{4})*)", re.DOTALL)
ESCAPED_CHARACTER = re.compile(r"\\u([0-9a-f]{4})|\\\\")

COLUMNS = {
    "id": "ids", "file": "files", "class": "labels", "label": "labels", "unit": "units", "request": "request",
    "added": "added",
}  # fmt: skip


def open_model(
    directory: Path, *, writer: bool = False, wait: float = 0
) -> "AbstractContextManager[Predictor]":
    """Open a model. wait: seconds to wait for another process that writes it."""
    from munkey.deploy.predictor import Predictor

    return Predictor.load(directory, writer=writer, wait=wait)


def join_files(files: Names, more: Names) -> list[str]:
    """Return the files after `--files`. Raises ValueError for arguments without `--files`."""
    if more and not files:
        raise ValueError(
            f"{more[0]!r}: unexpected argument. Write --files before the names of source files"
        )
    return [*(files or []), *(more or [])]


def parse_ids(where: str, text: str) -> list[int]:
    """Parse ids, separated by commas or white space. A ValueError says `where` they were."""
    return _convert_ids(where, WORD.findall(text))


def read_ids(file: Path) -> list[int]:
    """Read the ids in a file, as `read_list` does. A line may have several."""
    words = []
    for line in read_list(file, "ids"):
        words += WORD.findall(line)
    return _convert_ids(str(file), words)


def _convert_ids(where: str, words: Sequence[str]) -> list[int]:
    """Convert words to ids. Raises ValueError without any word, or for one that is not an id."""
    if not words:
        raise ValueError(f"{where}: no ids; write whole numbers from 0, e.g. 1,2,3")
    for word in words:
        if not re.fullmatch("[0-9]{1,19}", word):  # 2^63 - 1, the largest id, has 19 digits
            raise ValueError(
                f"{where}: {word[:40]!r} is not an id; ids are whole numbers from 0, e.g. 1,2,3"
            )
    return [int(word) for word in words]


def read_list(file: Path, kind: str) -> list[str]:
    """Read a list of ids or files: the lines of a text file, or a column of a CSV file.

    file: `-` is standard input; kind: a value of COLUMNS. Raises ValueError if the file is not UTF-8,
    or not valid as CSV.
    """
    from munkey.core.files import read_user_text
    from munkey.data.intake.csv_tables import parse_table

    text = read_user_text(file)
    if kind not in _parse_header(file, text.partition("\n")[0]):
        return text.splitlines()
    table = parse_table(file, text, strip=False)
    column = [COLUMNS.get(name, "") for name in table.names].index(kind)
    return [decode_cell(cells[column]) for _, cells in table.lines]


def _parse_header(file: Path, line: str) -> list[str]:
    """Return the kinds of columns in the first line of a file; none if it is not a header."""
    from munkey.data.intake.csv_tables import TableError, parse_table

    try:
        names = parse_table(file, line).names
    except TableError:  # e.g. a file name with a quotation mark in it
        return []
    return [COLUMNS.get(name, "") for name in names]


def read_requests(file: Path) -> dict[str | None, list[dict[str, list[Any]]]]:
    """Read the lines of a CSV file, by request number; None without a column of numbers.

    file: `-` is standard input. A file with only a header has no requests. Raises ValueError that
    names the invalid line or column.
    """
    from munkey.data.intake.csv_tables import read_table

    table = read_table(file, strip=False)  # names may begin or end with blanks
    kinds = [COLUMNS.get(name, "") for name in table.names]
    if not kinds or "" in kinds or len(set(kinds)) < len(kinds):
        columns = (
            "id, file, class, unit, request, added (ignored), each at most once, and nothing else"
        )
        header = ", ".join(map(repr, table.header)) or "an empty file"
        raise ValueError(f"{file}: the first line must name columns {columns}; not {header}")
    requests: dict[str | None, list[dict[str, list[Any]]]] = {}
    for number, cells in table.lines:
        where = f"{file}, line {number}"
        request, line = _parse_line(where, kinds, cells)
        if request is None and "request" in kinds:
            raise ValueError(f"{where}: no request number")
        if not line:
            raise ValueError(f"{where}: no sample is named")
        requests.setdefault(request, []).append(line)
    return requests


def _parse_line(
    where: str, kinds: list[str], cells: Sequence[str]
) -> tuple[str | None, dict[str, list[Any]]]:
    """Return the request number in a line of a CSV file, and the names of samples by kind."""
    request = None
    line: dict[str, list[Any]] = {}
    for kind, cell in zip(kinds, cells, strict=True):
        if kind == "added" or not cell.strip():
            continue
        if kind == "request":
            request = cell.strip()
        elif kind == "ids":
            line[kind] = parse_ids(where, cell)
        elif kind == "units":
            unit = decode_unit(cell)
            has_class = "labels" in kinds and cells[kinds.index("labels")].strip() != ""
            if unit is not None:
                line[kind] = [unit]
            elif has_class:
                # Read as an empty cell, NA would stand for the whole class.
                raise ValueError(
                    f"{where}: {cell.strip()!r} names no unit; leave the cell empty to name the"
                    " whole class"
                )
        else:
            line[kind] = [decode_cell(cell)]
    return request, line


def decode_unit(cell: str) -> str | None:
    """Return the unit in a cell; None for a missing value such as NA. 7.0 becomes 7.

    Blanks stay, since names in an older memory may have them.
    """
    from munkey.data.intake.unit_names import unit_name

    name = unit_name(cell)
    if name is None or name.isdecimal():
        return name
    return decode_cell(cell)


def encode_cell(name: str) -> str:
    """Turn a name into a cell that is safe in a spreadsheet. `decode_cell` reads it back.

    If the name looks like a formula or has invisible characters, the cell begins with an apostrophe.
    Backslashes are then doubled, and invisible characters become \\u and four hexadecimal digits.
    """
    is_safe = name[:1] not in FORMULA_STARTS and not INVISIBLE.search(name)
    looks_encoded = decode_cell(name) != name
    if is_safe and not looks_encoded:
        return name
    doubled = name.replace("\\", "\\\\")
    escaped = INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", doubled)
    return f"'{escaped}"


def decode_cell(cell: str) -> str:
    """Return the name in a cell. `encode_cell` may have encoded it."""
    match = QUOTED_CELL.fullmatch(cell)
    if match is None:
        return cell
    encoded_name = match[1]
    # Any other name with an apostrophe in front is what somebody wrote, such as 's-Hertogenbosch.
    is_encoded = encoded_name[:1] in FORMULA_STARTS or "\\" in encoded_name
    if not is_encoded:
        return cell
    return ESCAPED_CHARACTER.sub(_decode_escape, encoded_name)


def _decode_escape(match: re.Match[str]) -> str:
    """Return the character behind `\\u` and four digits, or a backslash for two of them."""
    if match[1]:
        return chr(int(match[1], 16))
    return "\\"


def read_salt(salt: str | None, file: Path | None) -> bytes:
    """Return the salt from a hexadecimal text or a file; empty without either."""
    from munkey.core.files import read_user_text

    if file:
        text = read_user_text(file).strip()
    elif salt is not None:
        text = salt.strip()
    else:
        return b""
    if not re.fullmatch("([0-9a-fA-F]{2}){16,}", text):
        raise ValueError(
            f"{file or '--salt'}: not a salt; `forget` prints one, of 32 hexadecimal digits or more"
        )
    return bytes.fromhex(text)


def require_outside_model(directory: Path, file: Path) -> None:
    """Raise ValueError if the file is a folder, or lies in the model's directory."""
    if file.is_dir():
        raise ValueError(
            f"{file}: is a folder; give the name of a file in it, outside the model's directory"
        )
    # Without following a link of that name, which the new file replaces.
    place = file.parent.resolve() / file.name
    if place.is_relative_to(directory.resolve()):
        raise ValueError(
            f"{file}: lies in the model's directory, where it could destroy the model; write it"
            " elsewhere"
        )


def require_explanation_page(directory: Path, file: Path | None) -> None:
    """Raise ValueError if the file exists and `predict` or `find` did not write it."""
    from munkey.deploy.model.explain import is_explanation_page

    if file is None:
        return
    require_outside_model(directory, file)
    if not file.exists():
        return
    if not file.is_file() or not is_explanation_page(file):
        raise ValueError(
            f"{file}: exists, and this command did not write it, so it is not overwritten; choose a"
            " new name"
        )


def require_certificates(
    directory: Path, files: Collection[Path], salt_files: Collection[Path] = ()
) -> None:
    """Raise ValueError unless certificates, pages and salts can be written, each to its own file."""
    from munkey.deploy.certificate import get_page_path

    for file in salt_files:
        if os.path.lexists(file):
            raise ValueError(
                f"{file}: exists already, and each certificate needs its own salt; choose a new"
                " name"
            )
    for file in (*files, *salt_files):
        require_outside_model(directory, file)
        # Missing folders are made, in the nearest one that exists.
        parent = next(folder for folder in file.absolute().parents if os.path.lexists(folder))
        if not parent.is_dir():
            raise ValueError(
                f"{file}: cannot be written, since {parent} is not a folder; choose another place"
            )
    paths = [*files, *map(get_page_path, files), *salt_files]
    if len(set(paths)) < len(paths):
        raise ValueError(
            "each certificate and salt needs its own file: put {request} into its name"
        )
