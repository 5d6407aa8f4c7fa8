"""Arguments shared by several commands, readers for request files, and checks of output paths."""

import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from munkey.core.console import UNPRINTABLE
from munkey.settings import OnBad

if TYPE_CHECKING:
    from munkey.deploy.certificate import Certificate
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
        help="What to do with unreadable pictures. skip: omit them, and print a warning.",
        metavar="raise|skip",
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="How long to wait while another process is changing the model.",
    ),
]
DEFAULT_WAIT_S = 60.0  # `memory_file.WAIT_S`, whose module is slow to import for `munkey --help`
SigningKey = Annotated[
    Path | None,
    typer.Option(
        metavar="KEY", help="Sign the certificate with this private key, from `munkey keygen`."
    ),
]
Names = list[str]
Classes = Annotated[
    Names | None, typer.Option("--class", metavar="NAME", help="A class. May be repeated.")
]
Units = Annotated[
    Names | None,
    typer.Option("--unit", metavar="NAME", help="A unit, e.g. a person. May be repeated."),
]
Files = Annotated[
    Names | None,
    typer.Option("--files", metavar="PICTURE...", help="Source files, or folders of them."),
]
Globs = Annotated[
    Names | None,
    typer.Option(
        "--glob",
        metavar="PATTERN",
        help="A pattern of source files, in quotes: 'cats/*.png'. May be repeated.",
    ),
]
# The shell expands `--files *` to one value of the option and additional positional arguments.
MoreFiles = Annotated[Names | None, typer.Argument(metavar="PICTURE", hidden=True)]

# Spreadsheets run a cell as a formula if it starts with =, +, - or @ (ASCII or full-width). A
# leading apostrophe prevents that, so names that start with an apostrophe must be escaped, too.
FORMULA_STARTS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20'")
INVISIBLE = re.compile(rf"{UNPRINTABLE.pattern}|[\t\n]")
WORD = re.compile(r"[^\s,]+")  # words are separated by commas or white space
QUOTED_CELL = re.compile(r"'((?:[^\\]|\\\\|\\u[0-9a-f]{4})*)", re.DOTALL)
ESCAPED_CHARACTER = re.compile(r"\\u([0-9a-f]{4})|\\\\")

# What each column of a CSV file contains, by the column names that users may write.
COLUMNS = {
    "id": "ids", "file": "files", "class": "labels", "label": "labels", "unit": "units", "request": "request",
    "added": "added",
}  # fmt: skip


def open_model(
    directory: Path, *, wait: float = DEFAULT_WAIT_S
) -> "AbstractContextManager[Predictor]":
    """Open a model.

    Parameters
    ----------
    wait
        How many seconds a change waits while another process is changing the model.
    """
    from munkey.deploy.predictor import Predictor

    return Predictor.load(directory, wait=wait)


def join_files(
    files: Names | None, more_files: Names | None, globs: Names | None = None
) -> list[str]:
    """Return the names after `--files` and the patterns after `--glob`.

    Raises ValueError for positional arguments without `--files`.
    """
    from munkey.deploy.model.sources import PATTERN_PREFIX

    if more_files and not files:
        advice = "Write --files before the names of source files"
        if globs:
            advice = "Put the pattern after --glob in quotes, or the shell replaces it"
        raise ValueError(f"{more_files[0]!r}: unexpected argument. {advice}")
    patterns = [f"{PATTERN_PREFIX}{pattern}" for pattern in globs or ()]
    return [*(files or []), *(more_files or []), *patterns]


def parse_ids(source: str, text: str) -> list[int]:
    """Parse ids separated by commas or white space. Raises ValueError, which begins with `source`."""
    return _convert_ids(source, WORD.findall(text))


def read_ids(file: Path) -> list[int]:
    """Read the ids in a text or CSV file. Raises ValueError if it is invalid or has none."""
    words = []
    for line in read_list(file, "ids"):
        words += WORD.findall(line)
    return _convert_ids(str(file), words)


def _convert_ids(source: str, words: Sequence[str]) -> list[int]:
    """Convert words to ids. Raises ValueError if there are no words, or if one is not an id."""
    from munkey.data.intake.unit_names import parse_id

    if not words:
        raise ValueError(f"{source}: no ids; write whole numbers from 0, e.g. 1,2,3")
    ids = []
    for word in words:
        sample_id = parse_id(word)
        if sample_id is None:
            raise ValueError(
                f"{source}: {word[:40]!r} is not an id; ids are whole numbers from 0, e.g. 1,2,3"
            )
        ids.append(sample_id)
    return ids


def read_list(file: Path, kind: str) -> list[str]:
    """Read the lines of a text file, or the column of a CSV file that COLUMNS calls `kind`.

    `-` is standard input. Raises ValueError if the file is not UTF-8, or not valid CSV.
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
    """Return the kinds of the columns that a file's first line lists, or [] if it is not CSV."""
    from munkey.data.intake.csv_tables import TableError, parse_table

    try:
        names = parse_table(file, line).names
    except TableError:  # e.g. a file name with a quotation mark in it
        return []
    return [COLUMNS.get(name, "") for name in names]


def read_requests(file: Path) -> dict[str | None, list[dict[str, list[Any]]]]:
    """Read a CSV file of requests; `-` is standard input.

    Returns, by request number (None without that column), one mapping for each row from kinds of
    names (ids, files, labels, units) to names. Raises ValueError, which names the line.
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
        source = f"{file}, line {number}"
        request, names = _parse_row(source, kinds, cells)
        if request is None and "request" in kinds:
            raise ValueError(f"{source}: no request number")
        if not names:
            raise ValueError(f"{source}: no sample is named")
        requests.setdefault(request, []).append(names)
    return requests


def _parse_row(
    source: str, kinds: list[str], cells: Sequence[str]
) -> tuple[str | None, dict[str, list[Any]]]:
    """Return a row's request number and its names by kind. Raises ValueError."""
    from munkey.data.intake.unit_names import unit_name

    request = None
    names: dict[str, list[Any]] = {}
    for kind, cell in zip(kinds, cells, strict=True):
        if kind == "added" or not cell.strip():
            continue
        if kind == "request":
            request = unit_name(cell)  # 7 for 7.0, as pandas may write it; NA is no number
        elif kind == "ids":
            names[kind] = parse_ids(source, cell)
        elif kind == "units":
            unit = decode_unit(cell)
            has_class = "labels" in kinds and cells[kinds.index("labels")].strip() != ""
            if unit is not None:
                names[kind] = [unit]
            elif has_class:
                # If NA were treated as an empty cell, the row would select the whole class.
                raise ValueError(
                    f"{source}: {cell.strip()!r} names no unit; leave the cell empty to name the"
                    " whole class"
                )
        else:
            names[kind] = [decode_cell(cell)]
    return request, names


def decode_unit(cell: str) -> str | None:
    """Return the name of the unit in a cell, or None for a missing value such as NA."""
    from munkey.data.intake.unit_names import unit_name

    return unit_name(decode_cell(cell))


def encode_cell(name: str) -> str:
    """Encode a name so that its cell is safe in a spreadsheet; `decode_cell` undoes it.

    A formula or invisible characters get an apostrophe in front, doubled backslashes, and escapes.
    """
    is_safe = name[:1] not in FORMULA_STARTS and not INVISIBLE.search(name)
    looks_encoded = decode_cell(name) != name
    if is_safe and not looks_encoded:
        return name
    doubled = name.replace("\\", "\\\\")
    escaped = INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", doubled)
    return f"'{escaped}"


def decode_cell(cell: str) -> str:
    """Return the name in a cell, decoded if `encode_cell` encoded it."""
    match = QUOTED_CELL.fullmatch(cell)
    if match is None:
        return cell
    encoded_name = match[1]
    # Otherwise, the apostrophe is part of the name, as in 's-Hertogenbosch.
    is_encoded = encoded_name[:1] in FORMULA_STARTS or "\\" in encoded_name
    if not is_encoded:
        return cell
    return ESCAPED_CHARACTER.sub(_decode_escape, encoded_name)


def _decode_escape(match: re.Match[str]) -> str:
    """Return the character that `\\uXXXX` stands for, or one backslash for two."""
    if match[1]:
        return chr(int(match[1], 16))
    return "\\"


def read_salt(salt: str | None, file: Path | None) -> bytes:
    """Return the salt from a hexadecimal string or a file; no bytes without either.

    Raises ValueError for less than 32 hexadecimal digits.
    """
    from munkey.core.files import read_user_text

    if file:
        text = read_user_text(file).strip()
    elif salt is not None:
        text = salt.strip()
    else:
        return b""
    if not re.fullmatch("([0-9a-fA-F]{2}){16,}", text):
        raise ValueError(
            f"{file or '--salt'}: not a salt. A salt has at least 32 hexadecimal digits; `forget`"
            " prints it"
        )
    return bytes.fromhex(text)


def require_outside_model(directory: Path, file: Path) -> None:
    """Raise ValueError if `file` is a folder or is inside the model's directory."""
    if file.is_dir():
        raise ValueError(
            f"{file}: is a folder; give the name of a file in it, outside the model's directory"
        )
    # Resolve only the parent: the new file would replace a symbolic link, not follow it.
    absolute_path = file.parent.resolve() / file.name
    if absolute_path.is_relative_to(directory.resolve()):
        raise ValueError(
            f"{file}: is inside the model's directory, where it could overwrite the model; write it"
            " elsewhere"
        )


def make_signer(key_file: Path | None) -> "Callable[[Certificate], Certificate]":
    """Return a function that signs a certificate, or returns it unchanged if there is no key.

    Raises KeyFileError if the file is not a private key.
    """
    if key_file is None:
        return lambda certificate: certificate
    from munkey.deploy.signatures import read_private_key, sign

    key = read_private_key(key_file)
    return lambda certificate: sign(certificate, key)


def require_certificates(
    directory: Path, files: Collection[Path], salt_files: Collection[Path] = ()
) -> None:
    """Raise ValueError unless each certificate, page and salt has its own file outside the model.

    A salt must not replace a file.
    """
    from munkey.deploy.certificate import get_page_path

    for file in salt_files:
        if os.path.lexists(file):
            raise ValueError(
                f"{file}: already exists, and each certificate needs its own salt; choose a new"
                " name"
            )
    for file in (*files, *salt_files):
        require_outside_model(directory, file)
        # Missing folders will be created inside the closest existing ancestor.
        parent = next(folder for folder in file.absolute().parents if os.path.lexists(folder))
        if not parent.is_dir():
            raise ValueError(
                f"{file}: cannot be written because {parent} is not a folder; choose another"
                " location"
            )
    paths = [*files, *map(get_page_path, files), *salt_files]
    if len(set(paths)) < len(paths):
        raise ValueError(
            "each certificate and salt needs its own file: include {request} in the file name"
        )
