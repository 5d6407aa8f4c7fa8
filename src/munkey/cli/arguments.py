"""Arguments that several commands share; files of requests; where commands may write."""

import os
import re
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from munkey.core.console import UNSEEN
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
        help="skip: leave out pictures that cannot be read, and name them.",
        metavar="raise|skip",
    ),
]
Page = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a web page with pictures.")
]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0, help="How long to wait for another process that writes."
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
    typer.Option("--files", metavar="PICTURE...", help="Source files, folders, or 'patterns'."),
]
# A shell turns `--files *` into one option and further arguments.
MoreFiles = Annotated[Names, typer.Argument(metavar="PICTURE", hidden=True)]

# Characters that begin a formula in a spreadsheet, also in full width; an apostrophe prevents that.
FORMULAS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20'")
UNSHOWN = re.compile(rf"{UNSEEN.pattern}|[\t\n]")
QUOTED = re.compile(r"'((?:[^\\]|\\\\|\\u[0-9a-f]{4})*)", re.DOTALL)
ESCAPED = re.compile(r"\\u([0-9a-f]{4})|\\\\")

COLUMNS = {
    "id": "ids", "file": "files", "class": "labels", "label": "labels", "unit": "units", "request": "request",
    "added": "added",
}  # fmt: skip


def model(
    directory: Path, *, writer: bool = False, wait: float = 0
) -> "AbstractContextManager[Predictor]":
    """Open a model. wait: seconds to wait for another process that writes it."""
    from munkey.deploy.predictor import Predictor

    return Predictor.load(directory, writer=writer, wait=wait)


def named_files(files: Names, more: Names) -> list[str]:
    """The files after `--files`. Raises ValueError for arguments without `--files`."""
    if more and not files:
        raise ValueError(
            f"{more[0]!r}: unexpected argument. Write --files before the names of source files"
        )
    return [*(files or []), *(more or [])]


def ids_in(where: str, text: str) -> list[int]:
    """Ids, separated by commas or white space. Else ValueError, which says `where` they were."""
    if not text.strip(" ,\n\t\r"):
        raise ValueError(f"{where}: no ids; write whole numbers from 0, e.g. 1,2,3")
    words = re.split(r"[\s,]+", text.strip(" ,\n\t\r"))
    for word in words:
        if not re.fullmatch("[0-9]{1,19}", word):  # up to 2^63 - 1
            raise ValueError(
                f"{where}: {word[:40]!r} is not an id; ids are whole numbers from 0, e.g. 1,2,3"
            )
    return list(map(int, words))


def list_in(file: Path, kind: str) -> list[str]:
    """A list of ids or files: the lines of a text file, or a column of a CSV file.

    file: `-` is standard input; kind: a value of COLUMNS. Raises ValueError if the file is not UTF-8,
    or not valid as CSV.
    """
    from munkey.core.files import read_user_text
    from munkey.data.intake.csv_tables import parse_table

    text = read_user_text(file)
    if kind not in _kinds_of_header(file, text.partition("\n")[0]):
        return text.splitlines()
    table = parse_table(file, text, strip=False)
    column = [COLUMNS.get(name, "") for name in table.names].index(kind)
    return [name_in(cells[column]) for _, cells in table.lines]


def _kinds_of_header(file: Path, line: str) -> list[str]:
    """The kinds of columns in the first line of a file; empty if it is not a header."""
    from munkey.data.intake.csv_tables import TableError, parse_table

    try:
        names = parse_table(file, line).names
    except TableError:  # e.g. a file name with a quotation mark in it
        return []
    return [COLUMNS.get(name, "") for name in names]


def requests_in(file: Path) -> dict[str | None, list[dict[str, list[Any]]]]:
    """The lines of a CSV file by the number of their request, None without such a column.

    file: `-` is standard input; with nothing but a header it has no requests. Raises ValueError that
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
        request, line = _read_line(where, kinds, cells)
        if request is None and "request" in kinds:
            raise ValueError(f"{where}: no request number")
        if not line:
            raise ValueError(f"{where}: no sample is named")
        requests.setdefault(request, []).append(line)
    return requests


def _read_line(
    where: str, kinds: list[str], cells: Sequence[str]
) -> tuple[str | None, dict[str, list[Any]]]:
    """The request's number in a line of a CSV file, and the names of samples by their kind."""
    request = None
    line: dict[str, list[Any]] = {}
    for kind, cell in zip(kinds, cells, strict=True):
        if kind == "added" or not cell.strip():
            continue
        if kind == "request":
            request = cell.strip()
        elif kind == "ids":
            line[kind] = ids_in(where, cell)
        elif kind == "units":
            unit = unit_in(cell)
            if unit is not None:
                line[kind] = [unit]
            elif "labels" in kinds and cells[kinds.index("labels")].strip():
                # Read as an empty cell, NA would stand for the whole class.
                raise ValueError(
                    f"{where}: {cell.strip()!r} names no unit; leave the cell empty to name the whole class"
                )
        else:
            line[kind] = [name_in(cell)]
    return request, line


def unit_in(cell: str) -> str | None:
    """The unit in a cell; None for a missing value such as NA.

    Blanks stay, since an older memory may have names with them; 7.0 is 7.
    """
    from munkey.data.intake.unit_names import unit_name

    name = unit_name(cell)
    if name is None or name.isdecimal():
        return name
    return name_in(cell)


def cell_of(name: str) -> str:
    """A name as a cell that is safe to open in a spreadsheet, and that `name_in` reads back.

    If the name looks like a formula, or has invisible characters, the cell begins with an apostrophe.
    Backslashes are then doubled, and invisible characters are \\u and four hexadecimal digits.
    """
    if name[:1] in FORMULAS or UNSHOWN.search(name) or name_in(name) != name:
        return "'" + UNSHOWN.sub(lambda one: f"\\u{ord(one[0]):04x}", name.replace("\\", "\\\\"))
    return name


def name_in(cell: str) -> str:
    """The name in a cell: its text, decoded if `cell_of` has encoded it."""
    quoted = QUOTED.fullmatch(cell)
    if quoted is None or not (quoted[1][:1] in FORMULAS or "\\" in quoted[1]):
        return cell
    return ESCAPED.sub(lambda one: chr(int(one[1], 16)) if one[1] else "\\", quoted[1])


def salt_of(salt: str | None, file: Path | None) -> bytes:
    """The salt in a hexadecimal text or a file; empty without either. Else ValueError."""
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


def require_outside(directory: Path, file: Path) -> None:
    """Raise ValueError for a folder, or a file in the model's directory."""
    if file.is_dir():
        raise ValueError(
            f"{file}: is a folder; give the name of a file in it, outside the model's directory"
        )
    if (file.parent.resolve() / file.name).is_relative_to(directory.resolve()):
        raise ValueError(
            f"{file}: lies in the model's directory, where it could destroy the model; write it elsewhere"
        )


def require_page(directory: Path, file: Path | None) -> None:
    """Raise ValueError for a file that is not a page of ours, which we may overwrite."""
    from munkey.deploy.model.explain import is_page

    if file is None:
        return
    require_outside(directory, file)
    if file.exists() and not (file.is_file() and is_page(file)):
        raise ValueError(
            f"{file}: exists and was not written by this command, so it is not overwritten; choose a new name"
        )


def require_certificates(
    directory: Path, files: Collection[Path], salt_files: Collection[Path] = ()
) -> None:
    """Raise ValueError unless certificates, pages and salts can be written, each to its own file."""
    from munkey.deploy.certificate import page_of

    for file in salt_files:
        if os.path.lexists(file):
            raise ValueError(
                f"{file}: exists already, and each certificate needs a salt of its own; choose a new name"
            )
    for file in (*files, *salt_files):
        require_outside(directory, file)
        above = next(folder for folder in file.absolute().parents if os.path.lexists(folder))
        if not above.is_dir():
            raise ValueError(
                f"{file}: cannot be written, since {above} is not a folder; choose another place"
            )
    written = [*files, *map(page_of, files), *salt_files]
    if len(set(written)) < len(written):
        raise ValueError(
            "each certificate and salt needs a file of its own: put {request} into its name"
        )
