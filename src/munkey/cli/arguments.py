"""What several commands are given: a model, pictures, ids, requests; where they may write: never into a model."""

import os
import re
from collections.abc import Collection
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
        "--on-bad", help="skip: leave out what cannot be read, and name it.", metavar="raise|skip"
    ),
]
Page = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page that shows pictures.")
]
Wait = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for another writer.")
]
Names = list[str] | None
Classes = Annotated[
    Names, typer.Option("--class", metavar="NAME", help="A class; may be repeated.")
]
Units = Annotated[
    Names, typer.Option("--unit", metavar="NAME", help="A person, say; may be repeated.")
]
Files = Annotated[
    Names,
    typer.Option("--files", metavar="PICTURE...", help="Source files, folders, or 'patterns'."),
]
# what a shell makes of `--files *`
MoreFiles = Annotated[Names, typer.Argument(metavar="PICTURE", hidden=True)]

# What a spreadsheet begins a formula with, also in full width, and what keeps it from doing so.
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
    """Open a model. wait: seconds for another writer to end."""
    from munkey.deploy.predictor import Predictor

    return Predictor.load(directory, writer=writer, wait=wait)


def named_files(files: Names, more: Names) -> list[str]:
    """The files after `--files`. Raises ValueError for words that follow no `--files`."""
    if more and not files:
        raise ValueError(f"{more[0]!r}: what is it? Write --files before the names of source files")
    return [*(files or []), *(more or [])]


def ids_in(where: str, text: str) -> list[int]:
    """Ids, separated by commas or white space. Raises ValueError for anything else, which stood at `where`."""
    if not text.strip(" ,\n\t\r"):
        raise ValueError(f"{where}: names no id")
    words = re.split(r"[\s,]+", text.strip(" ,\n\t\r"))
    for word in words:
        if not re.fullmatch("[0-9]{1,19}", word):  # up to 2^63 - 1
            raise ValueError(
                f"{where}: {word[:40]!r} is not an id; ids are whole numbers from 0, e.g. 1,2,3"
            )
    return list(map(int, words))


def list_in(file: Path, kind: str) -> list[str]:
    """The lines of a list of ids or files; of a CSV file, the column that its header names so. `-`: standard input.

    kind: a value of COLUMNS. Raises ValueError for what is no text in UTF-8, or a CSV file that cannot be read.
    """
    from munkey.core.files import given_text
    from munkey.data.intake.csv_tables import table_of

    text = given_text(file)
    if kind not in _kinds_of_header(file, text.partition("\n")[0]):
        return text.splitlines()
    table = table_of(file, text, trimmed=False)
    column = [COLUMNS.get(name, "") for name in table.names].index(kind)
    return [name_in(cells[column]) for _, cells in table.lines]


def _kinds_of_header(file: Path, line: str) -> list[str]:
    """The kinds of the columns that the first line of a file names, if it is a header at all."""
    from munkey.data.intake.csv_tables import TableError, table_of

    try:
        names = table_of(file, line).names
    except TableError:  # a file name with a quote in it
        return []
    return [COLUMNS.get(name, "") for name in names]


def requests_in(file: Path) -> dict[str | None, list[dict[str, list[Any]]]]:
    """The lines of a CSV file by their request's number, None where it has no such column; `-` is standard input.

    A file with a header alone holds no requests. Raises ValueError that names the line or the column that makes no
    sense.
    """
    from munkey.data.intake.csv_tables import read_table

    table = read_table(file, trimmed=False)  # names may have blanks of their own
    kinds = [COLUMNS.get(name, "") for name in table.names]
    if not kinds or "" in kinds or len(set(kinds)) < len(kinds):
        columns = "id, file, class, unit, request, added (passed over), each at most once, and nothing else"
        header = ", ".join(map(repr, table.header)) or "an empty file"
        raise ValueError(f"{file}: the first line must name columns {columns}; not {header}")
    requests: dict[str | None, list[dict[str, list[Any]]]] = {}
    for number, cells in table.lines:
        where = f"{file}, line {number}"
        line: dict[str, list[Any]] = {}
        request = None
        for kind, cell in zip(kinds, cells, strict=True):
            if kind == "added" or not cell.strip():
                continue
            if kind == "request":
                request = cell.strip()
            elif kind == "ids":
                line[kind] = ids_in(where, cell)
            else:
                name = unit_in(cell) if kind == "units" else name_in(cell)
                line |= {kind: [name]} if name is not None else {}
        if "labels" in line and "units" in kinds and "units" not in line:
            cell = cells[kinds.index("units")].strip()
            if cell:  # NA: read as an empty cell, it would mean everybody of the class
                said = f"{cell!r} names no unit; leave the cell empty if the whole class is meant"
                raise ValueError(f"{where}: {said}")
        if request is None and "request" in kinds:
            raise ValueError(f"{where}: no request number")
        if not line:
            raise ValueError(f"{where}: no sample is named")
        requests.setdefault(request, []).append(line)
    return requests


def unit_in(cell: str) -> str | None:
    """The unit that a cell names; None where it stands for none, as NA does.

    Blanks stay, since an older memory may have a name with them; 7.0 is 7.
    """
    from munkey.data.intake.unit_names import unit_name

    name = unit_name(cell)
    return name if name is None or name.isdecimal() else name_in(cell)


def cell_of(name: str) -> str:
    """A name as a cell that a spreadsheet shows, and that `name_in` reads back.

    A name that a spreadsheet would take for a formula, or that has characters that are not shown, comes behind an
    apostrophe, in which a backslash is two and such a character is its number, \\u and 4 hexadecimal digits.
    """
    if name[:1] in FORMULAS or UNSHOWN.search(name) or name_in(name) != name:
        return "'" + UNSHOWN.sub(lambda one: f"\\u{ord(one[0]):04x}", name.replace("\\", "\\\\"))
    return name


def name_in(cell: str) -> str:
    """The name that a cell stands for: what stands in it, unless `cell_of` wrote it behind an apostrophe."""
    quoted = QUOTED.fullmatch(cell)
    if quoted is None or not (quoted[1][:1] in FORMULAS or "\\" in quoted[1]):
        return cell
    return ESCAPED.sub(lambda one: chr(int(one[1], 16)) if one[1] else "\\", quoted[1])


def salt_of(salt: str | None, file: Path | None) -> bytes:
    """The salt that was given in hexadecimal, or in a file; else empty. Raises ValueError for what is none."""
    from munkey.core.files import given_text

    text = (given_text(file) if file else salt or "").strip()
    if (file or salt is not None) and not re.fullmatch("([0-9a-fA-F]{2}){16,}", text):
        raise ValueError(
            f"{file or '--salt'}: is no salt, as `forget` prints it: 32 hexadecimal digits or more"
        )
    return bytes.fromhex(text)


def require_outside(directory: Path, file: Path) -> None:
    """Raises ValueError for a file in the model's directory, where it could destroy the model, and for a folder."""
    if file.is_dir():
        raise ValueError(
            f"{file}: is a folder; give the name of a file in it, outside the model's directory"
        )
    if (file.parent.resolve() / file.name).is_relative_to(directory.resolve()):
        raise ValueError(
            f"{file}: lies in the model's directory, where it could destroy the model; write it elsewhere"
        )


def require_page(directory: Path, file: Path | None) -> None:
    """Raises ValueError where a page cannot be written to a file: only one of ours is overwritten."""
    from munkey.deploy.model.explain import is_page

    if file is None:
        return
    require_outside(directory, file)
    if file.exists() and not (file.is_file() and is_page(file)):
        raise ValueError(
            f"{file}: exists and was not made by this command, so it is left as it is; choose a new name"
        )


def require_certificates(
    directory: Path, files: Collection[Path], salt_files: Collection[Path] = ()
) -> None:
    """Raises ValueError where certificates, their pages and salts cannot be written, each to a file of its own."""
    from munkey.deploy.certificate import page_of

    for file in salt_files:
        if os.path.lexists(file):
            raise ValueError(
                f"{file}: exists already, and each certificate needs a salt of its own; give a new name"
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
