"""Files of the pipeline: written so that a killed job or a full disk leaves no half file, checked before they are read.

Beside every file lies its SHA-256, as `.NAME.sha256` in the format of sha256sum. A reader compares the two and refuses
a file that is not what was written, or that has no sum. That takes half a second a GiB (docs/performance.md).
"""

import codecs
import csv
import errno
import glob
import hashlib
import io
import json
import os
import re
import secrets
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

CONFIGFILES = "MUNKEY_CONFIGFILES"  # the environment variable that holds the run's own configuration files, quoted


class DamagedFileError(ValueError):
    """A file is not what the pipeline wrote; the message says which one and which command makes it anew."""

    def __init__(self, path: str | Path, why: str) -> None:
        again = f"`{command_to_make(path, '--force')}`{overlays_of(path)}"
        super().__init__(f"{path}: {why}. Recreate it with {again}, then run again")


def command_to_make(path: str | Path, *options: str) -> str:
    """The command that makes a file of the run that is going on, or that CONFIGFILES names."""
    configured = [f"--configfile {files}"] if (files := os.environ.get(CONFIGFILES)) else []
    return " ".join(["snakemake --cores all --resources gpu=1", *configured, *options, "--", shlex.quote(str(path))])


def overlays_of(path: str | Path) -> str:
    """What to add to a command that makes a file of an overlay's results, where no run has named the overlay."""
    folders = Path(path).parts[:-1]
    name = folders[folders.index("results") + 1] if "results" in folders[:-1] else "default"
    return "" if name == "default" or os.environ.get(CONFIGFILES) else ", with each --configfile that the run had"


class UnwritableFileError(OSError):
    """A file cannot be written, e.g. on a full disk; the message says why."""


@contextmanager
def atomic(path: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside `path` that takes its place only if the block succeeds.

    mode: of the new file, less what the user's umask takes. Removes what killed processes left of earlier attempts.
    Raises UnwritableFileError that names `path` when it cannot be written; what stood there before stays.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in abandoned(path):
        leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}{path.suffix}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except UnwritableFileError:
        raise
    except OSError as error:
        why = error.strerror or f"{error}: is the disk full?"  # numpy names no error number
        said = f"cannot be written ({why}); no half file was left"
        raise UnwritableFileError(error.errno or errno.EIO, said, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def abandoned(path: Path) -> Iterator[Path]:
    """Temporary files for `path` whose process is gone."""
    for beside in path.parent.glob(f".{glob.escape(path.name)}.*-*{glob.escape(path.suffix)}"):
        process = re.fullmatch(rf"\.{re.escape(path.name)}\.(\d+)-\w+{re.escape(path.suffix)}", beside.name)
        if process and not is_running(int(process[1])):
            yield beside


def is_running(process: int) -> bool:
    """Whether a process of this number runs; true where that cannot be asked."""
    try:
        if os.name == "posix":
            os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, and is somebody else's
        return True
    return True


@contextmanager
def sealed(path: str | Path) -> Iterator[Path]:
    """As `atomic`, and leaves the checksum of the file beside it.

    The checksum takes its place first: if the process is killed in between, no other file passes for this one.
    """
    with atomic(path) as temporary:
        yield temporary
        with temporary.open("rb") as written, atomic(sum_file(path)) as beside:
            beside.write_bytes(_line(path, hashlib.file_digest(written, "sha256").hexdigest()))


def sum_file(path: str | Path) -> Path:
    """Where the sum of a file lies."""
    return Path(path).with_name(f".{Path(path).name}.sha256")


def _line(path: str | Path, digest: str) -> bytes:
    return f"{digest}  {Path(path).name}\n".encode()


def _require(path: str | Path, digest: str) -> None:
    """Raise DamagedFileError unless this is the digest that was written beside the file."""
    beside = sum_file(path)
    if not beside.exists():
        raise DamagedFileError(path, f"its checksum {beside.name} is missing, so nothing tells whether it is whole")
    if beside.read_bytes() != _line(path, digest):
        raise DamagedFileError(path, f"damaged, since its SHA-256 is not the one in {beside.name}")


def given_text(path: str | Path) -> str:
    """The text of a file that a person named, without a mark of the byte order; `-` is standard input.

    Raises ValueError that names what is not text in UTF-8, and says how it becomes that.
    """
    where = "standard input" if str(path) == "-" else str(path)
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
    except IsADirectoryError:
        raise ValueError(f"{path}: is a folder; name a text file") from None
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content
    try:
        if is_utf16:
            raise UnicodeError
        return content.decode("utf-8-sig")
    except UnicodeError as error:
        encoding = "UTF-16" if is_utf16 else "latin1"
        known_as = "the 'Unicode text' of Excel" if is_utf16 else "CSV files of older programs"
        line = content.count(b"\n", 0, error.start) + 1 if isinstance(error, UnicodeDecodeError) else 1
        said = f"{where}: is not text in UTF-8 (line {line}); it may be in {encoding}, as {known_as}"
        to_do = f"Save it as 'CSV UTF-8', or convert it: `iconv -f {encoding} -t utf-8 FILE > NEW`"
        raise ValueError(f"{said}. {to_do}") from None


def read_bytes(path: str | Path) -> bytes:
    """The content of a file that the pipeline wrote. Raises DamagedFileError where it is not what was written."""
    content = Path(path).read_bytes()
    _require(path, hashlib.sha256(content).hexdigest())
    return content


def write_text(path: str | Path, text: str) -> None:
    with sealed(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    return json.loads(read_bytes(path))


def write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
    """Write rows of equal keys under a header line. columns: the keys, needed where there may be no rows."""
    with sealed(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: str | Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_bytes(path).decode(), newline="")))


def read_table(path: str | Path) -> "pd.DataFrame":
    """A CSV file as pandas reads it."""
    import pandas as pd

    return pd.read_csv(io.BytesIO(read_bytes(path)))


def write_npy(path: str | Path, array: np.ndarray) -> None:
    with sealed(path) as temporary:
        np.save(temporary, array)


def read_npy(path: str | Path) -> np.ndarray:
    return np.load(io.BytesIO(read_bytes(path)), allow_pickle=False)


def map_npy(path: str | Path) -> np.ndarray:
    """An array of any size, mapped into memory: checked in full, and the same open file is then read from."""
    with Path(path).open("rb") as file:
        _require(path, hashlib.file_digest(file, "sha256").hexdigest())
        file.seek(0)
        np.lib.format.read_magic(file)
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        return np.memmap(file, dtype, "r", file.tell(), shape, "F" if fortran_order else "C")


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    with sealed(path) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]


def read_npz(path: str | Path, *names: str) -> dict[str, np.ndarray]:
    """The named arrays of an NPZ file, by default all. Raises DamagedFileError where it is damaged or lacks one."""
    with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as archive:
        if missing := set(names) - set(archive.files):
            raise DamagedFileError(path, f"lacks the arrays {sorted(missing)}")
        return {name: archive[name] for name in names or archive.files}
