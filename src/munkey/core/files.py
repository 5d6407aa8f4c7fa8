"""Files of the pipeline: written atomically, and checked when they are read.

A killed job or a full disk leaves no partial file. Next to every file is its SHA-256, in
`.NAME.sha256` in the format of sha256sum. Readers refuse a file whose checksum is missing or
different. The check takes half a second per GiB (docs/performance.md).
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

CONFIGFILES = "MUNKEY_CONFIGFILES"  # environment variable: the run's configuration files, quoted


class DamagedFileError(ValueError):
    """A file differs from what was written to it. The message says how to recreate it."""

    def __init__(self, path: str | Path, why: str) -> None:
        command = f"`{command_to_make(path, '--force')}`{overlays_hint(path)}"
        super().__init__(f"{path}: {why}. Recreate it with {command}, then run again")


def command_to_make(path: str | Path, *options: str) -> str:
    """Return the command that makes a file of a run.

    It has the configuration files in the environment variable CONFIGFILES, if that is set.
    """
    words = ["snakemake --cores all --resources gpu=1"]
    configfiles = os.environ.get(CONFIGFILES)
    if configfiles:
        words.append(f"--configfile {configfiles}")
    words += [*options, "--", shlex.quote(str(path))]
    return " ".join(words)


def overlays_hint(path: str | Path) -> str:
    """Return a hint about the overlays of the file's run, to append to `command_to_make`."""
    folders = Path(path).parts[:-1]
    if "results" in folders[:-1]:
        name = folders[folders.index("results") + 1]
    else:
        name = "default"
    if name == "default" or os.environ.get(CONFIGFILES):
        return ""
    return ", with each --configfile that the run had"


class UnwritableFileError(OSError):
    """A file cannot be written, e.g. to a full disk. The message says why."""


@contextmanager
def atomic(path: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path in the same folder. If the block succeeds, it replaces `path`.

    Removes temporary files of killed processes. Raises UnwritableFileError if `path` cannot be
    written; an existing file is not changed then.

    Parameters
    ----------
    mode
        The permissions of the new file, before the user's umask.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in find_abandoned_files(path):
        leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}{path.suffix}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except UnwritableFileError:
        raise
    except OSError as error:
        why = error.strerror or f"{error}: is the disk full?"  # numpy gives no error number
        message = f"cannot be written ({why}); no partial file was left"
        raise UnwritableFileError(error.errno or errno.EIO, message, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def find_abandoned_files(path: Path) -> Iterator[Path]:
    """Find the temporary files of `path` that killed processes left."""
    candidates = f".{glob.escape(path.name)}.*-*{glob.escape(path.suffix)}"
    pattern = rf"\.{re.escape(path.name)}\.(\d+)-\w+{re.escape(path.suffix)}"
    for candidate in path.parent.glob(candidates):
        match = re.fullmatch(pattern, candidate.name)
        if match and not is_running(int(match[1])):
            yield candidate


def is_running(pid: int) -> bool:
    """Return whether a process with this id runs. Always true on systems other than POSIX."""
    try:
        if os.name == "posix":
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        return True
    return True


@contextmanager
def atomic_with_checksum(path: str | Path) -> Iterator[Path]:
    """Write as `atomic` does, and write the checksum of the file.

    The checksum is replaced first: if the process is killed in between, the old file no longer
    matches.
    """
    with atomic(path) as temporary:
        yield temporary
        with temporary.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with atomic(checksum_path(path)) as temporary_sum:
            temporary_sum.write_bytes(_checksum_line(path, digest))


def checksum_path(path: str | Path) -> Path:
    """Return the path of the file that holds the checksum of `path`."""
    return Path(path).with_name(f".{Path(path).name}.sha256")


def _checksum_line(path: str | Path, digest: str) -> bytes:
    """Return the line of a checksum file, as sha256sum writes it."""
    return f"{digest}  {Path(path).name}\n".encode()


def _require_checksum(path: str | Path, digest: str) -> None:
    """Raise DamagedFileError unless the checksum file of `path` holds this digest."""
    checksum = checksum_path(path)
    if not checksum.exists():
        raise DamagedFileError(
            path,
            f"its checksum {checksum.name} is missing, so it may be damaged",
        )
    if checksum.read_bytes() != _checksum_line(path, digest):
        raise DamagedFileError(
            path, f"damaged: its SHA-256 differs from the one in {checksum.name}"
        )


def read_user_text(path: str | Path) -> str:
    """Read a user's text file, without a byte order mark; `-` is standard input.

    Raises ValueError if it is not in UTF-8. The message says how to convert it.
    """
    if str(path) == "-":
        name = "standard input"
        content = sys.stdin.buffer.read()
    else:
        name = str(path)
        try:
            content = Path(path).read_bytes()
        except IsADirectoryError:
            raise ValueError(f"{path}: is a folder; name a text file") from None
    line = 1
    encoding = "latin1"
    origin = "CSV files of older programs"
    # Text in UTF-8 has no zero byte; in UTF-16, every letter of English has one.
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        encoding = "UTF-16"
        origin = "the 'Unicode text' of Excel"
    else:
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line += content.count(b"\n", 0, error.start)
    raise ValueError(
        f"{name}: is not text in UTF-8 (line {line}); it may be in {encoding}, as {origin}."
        f" Save it as 'CSV UTF-8', or convert it: `iconv -f {encoding} -t utf-8 FILE > NEW`"
    )


def read_bytes(path: str | Path) -> bytes:
    """Read a file of the pipeline. Raises DamagedFileError if it has changed."""
    content = Path(path).read_bytes()
    _require_checksum(path, hashlib.sha256(content).hexdigest())
    return content


def write_text(path: str | Path, text: str) -> None:
    with atomic_with_checksum(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    return json.loads(read_bytes(path))


def write_csv(
    path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()
) -> None:
    """Write rows with the same keys.

    Parameters
    ----------
    columns
        The keys; required if there may be no rows.
    """
    with (
        atomic_with_checksum(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, fieldnames=columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: str | Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_bytes(path).decode(), newline="")))


def read_table(path: str | Path) -> "pd.DataFrame":
    """Read a CSV file with pandas."""
    import pandas as pd

    return pd.read_csv(io.BytesIO(read_bytes(path)))


def write_npy(path: str | Path, array: np.ndarray) -> None:
    with atomic_with_checksum(path) as temporary:
        np.save(temporary, array)


def read_npy(path: str | Path) -> np.ndarray:
    return np.load(io.BytesIO(read_bytes(path)), allow_pickle=False)


def map_npy(path: str | Path) -> np.ndarray:
    """Memory-map an array, after checking the whole file."""
    # Maps the open file, not the path, which may meanwhile lead to another file.
    with Path(path).open("rb") as file:
        _require_checksum(path, hashlib.file_digest(file, "sha256").hexdigest())
        file.seek(0)
        np.lib.format.read_magic(file)
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        order = "F" if fortran_order else "C"
        return np.memmap(file, dtype, "r", file.tell(), shape, order)  # type: ignore[call-overload]


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    with atomic_with_checksum(path) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]


def read_npz(path: str | Path, *names: str) -> dict[str, np.ndarray]:
    """Read arrays of an NPZ file, by default all.

    Raises DamagedFileError if the file has changed, or one of the arrays is missing.
    """
    with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as archive:
        missing = set(names) - set(archive.files)
        if missing:
            raise DamagedFileError(path, f"the arrays {sorted(missing)} are missing")
        return {name: archive[name] for name in names or archive.files}
