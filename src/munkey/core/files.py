"""Read and write the pipeline's files: whole or not at all, and with checksums.

A file's SHA-256 is next to it as `.NAME.sha256`, in sha256sum's format. A file whose checksum is
missing or does not match is refused. The check takes half a second per GiB (docs/performance.md).
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
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# The environment variable with the quoted paths of the run's overlays.
CONFIGFILES = "MUNKEY_CONFIGFILES"


class DamagedFileError(ValueError):
    """A file was changed or damaged after it was written. The message says how to recreate it."""

    def __init__(self, path: str | Path, why: str) -> None:
        command = f"`{format_make_command(path, '--force')}`{format_overlays_hint(path)}"
        super().__init__(f"{path}: {why}. Recreate it with {command}, then run again")


def format_make_command(path: str | Path, *options: str) -> str:
    """Return the snakemake command that creates a file, with the overlays in CONFIGFILES."""
    arguments = ["snakemake --cores all --resources gpu=1"]
    configfiles = os.environ.get(CONFIGFILES)
    if configfiles:
        arguments.append(f"--configfile {configfiles}")
    arguments += [*options, "--", shlex.quote(str(path))]
    return " ".join(arguments)


def format_overlays_hint(path: str | Path) -> str:
    """Return a hint for the end of `format_make_command` if it may lack the run's overlays.

    Returns "" if the command needs no hint.
    """
    if os.environ.get(CONFIGFILES):
        return ""
    folders = Path(path).parts[:-1]
    is_result = "results" in folders[:-1]
    if not is_result or folders[folders.index("results") + 1] == "default":
        return ""
    return ", adding each --configfile that the run used"


class UnwritableFileError(OSError):
    """A file cannot be written, e.g. to a full disk. The message says why."""


@contextmanager
def atomic(path: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary file next to `path`, and move it to `path` if the block succeeds.

    Also removes what killed processes left. `mode`: permissions before the umask. Raises
    UnwritableFileError if `path` cannot be written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, handle = open_temporary(path, mode)
    os.close(handle)
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


def open_temporary(path: Path, mode: int) -> tuple[Path, int]:
    """Create a temporary file next to `path`, and remove what killed processes left there.

    Returns its path and a descriptor to write to.
    """
    for leftover in find_abandoned_files(path):
        leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}{path.suffix}")
    return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def find_abandoned_files(path: Path) -> Iterator[Path]:
    """Yield temporary files that killed processes left next to `path`."""
    # The names that `open_temporary` gives to files, which contain the process id.
    glob_pattern = f".{glob.escape(path.name)}.*-*{glob.escape(path.suffix)}"
    name_pattern = rf"\.{re.escape(path.name)}\.(\d+)-\w+{re.escape(path.suffix)}"
    for candidate in path.parent.glob(glob_pattern):
        match = re.fullmatch(name_pattern, candidate.name)
        if match and not is_running(int(match[1])):
            yield candidate


def is_running(pid: int) -> bool:
    """Return whether a process with this id is running. Outside POSIX, always returns True."""
    if os.name != "posix":  # on Windows, signal 0 is Ctrl-C
        return True
    try:
        os.kill(pid, 0)  # sends no signal, only checks whether the process exists
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists, but belongs to another user
        return True
    return True


@contextmanager
def atomic_with_checksum(path: str | Path) -> Iterator[Path]:
    """Write a file as `atomic` does, with its checksum, which is replaced first.

    If the process is killed in between, the old file is refused.
    """
    with atomic(path) as temporary:
        yield temporary
        with temporary.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with atomic(checksum_path(path)) as temporary_sum:
            temporary_sum.write_bytes(_checksum_line(path, digest))


def checksum_path(path: str | Path) -> Path:
    """Return the path of a file's checksum."""
    return Path(path).with_name(f".{Path(path).name}.sha256")


def _checksum_line(path: str | Path, digest: str) -> bytes:
    """Return the line of a checksum file, as sha256sum writes it."""
    return f"{digest}  {Path(path).name}\n".encode()


def _require_checksum(path: str | Path, digest: str) -> None:
    """Raise DamagedFileError unless the checksum file of `path` contains this digest."""
    checksum_file = checksum_path(path)
    if not checksum_file.exists():
        raise DamagedFileError(
            path,
            f"its checksum {checksum_file.name} is missing, so the file cannot be verified",
        )
    if checksum_file.read_bytes() != _checksum_line(path, digest):
        raise DamagedFileError(path, f"damaged (its SHA-256 does not match {checksum_file.name})")


def explain_content(content: bytes) -> str:
    """Say what a misnamed file is, by its first bytes, and what to do; empty if that is not known."""
    if content.startswith(b"version https://git-lfs.github.com/"):
        return "is a pointer of Git LFS instead of the file itself; run `git lfs pull`"
    if content.startswith(b"\x00\x05\x16\x07"):
        return "has only what macOS notes about another file (AppleDouble); remove it"
    return ""


def read_user_text(path: str | Path) -> str:
    """Read a user's text file, without a byte order mark; `-` is standard input.

    Raises ValueError for a folder, and for text that is not UTF-8; the message says how to convert
    it.
    """
    if str(path) == "-":
        name = "standard input"
        content = sys.stdin.buffer.read()
    else:
        name = str(path)
        try:
            content = Path(path).read_bytes()
        except IsADirectoryError:
            raise ValueError(f"{path}: is a folder; give the path of a text file instead") from None
    explanation = explain_content(content)
    if content.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):  # zip and OLE, of Excel
        explanation = "is not text but a spreadsheet, such as .xlsx; save it as 'CSV UTF-8'"
    if explanation:
        raise ValueError(f"{name}: {explanation}")
    # UTF-8 text has no zero bytes, whereas UTF-16 text has one for each English letter.
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        line = 1
        encoding = "UTF-16"
        origin = "Excel's 'Unicode text'"
    else:
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = 1 + content.count(b"\n", 0, error.start)
            encoding = "latin1"
            origin = "CSV files of older programs"
    raise ValueError(
        f"{name}: is not text in UTF-8 (line {line}). It may be in {encoding}, like {origin}."
        f" Save it as 'CSV UTF-8', or convert it: `iconv -f {encoding} -t utf-8 FILE > NEW`"
    )


def read_bytes(path: str | Path) -> bytes:
    """Read a file. Raises DamagedFileError if its checksum is missing or does not match."""
    content = Path(path).read_bytes()
    _require_checksum(path, hashlib.sha256(content).hexdigest())
    return content


def hash_file(path: str | Path) -> str:
    """Return a file's SHA-256. Raises DamagedFileError as `read_bytes` does."""
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    _require_checksum(path, digest)
    return digest


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
    """Write rows with the same keys to a CSV file. Without rows, `columns` are required."""
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
    """Verify a whole file, as `read_bytes` does, and return its array as a memory map."""
    # Map the open file rather than the path, which may have been replaced since it was verified.
    with Path(path).open("rb") as file:
        _require_checksum(path, hashlib.file_digest(file, "sha256").hexdigest())
        file.seek(0)
        np.lib.format.read_magic(file)  # `np.save` writes version 1.0 of the format
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        order = "F" if fortran_order else "C"
        return np.memmap(file, dtype, "r", file.tell(), shape, order)  # type: ignore[call-overload]


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    with atomic_with_checksum(path) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]


def read_npz(path: str | Path, *names: str) -> dict[str, np.ndarray]:
    """Read arrays of an NPZ file: the named ones, or all.

    Raises DamagedFileError if the checksum does not match or an array is missing.
    """
    with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as archive:
        missing = set(names) - set(archive.files)
        if missing:
            raise DamagedFileError(path, f"the arrays {sorted(missing)} are missing")
        return {name: archive[name] for name in names or archive.files}


# Folders that are complete or missing, even after a crash


def sync_folder(folder: Path) -> None:
    """Wait until a folder's entries are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_empty_folder(folder: Path) -> None:
    """Raise FileExistsError unless a folder is empty or missing."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise FileExistsError(f"{folder}: already contains files; choose a new or empty folder")


@contextmanager
def fill_folder(folder: Path) -> Iterator[None]:
    """Let the block write files into an empty or missing folder; if it fails, remove them.

    Unlike `create_folder`, it also works for a folder that cannot be renamed, such as a mounted one.
    Raises FileExistsError if `folder` has files.
    """
    require_empty_folder(folder)
    try:
        yield
    except BaseException:
        if folder.is_dir():
            for path in folder.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        raise


@contextmanager
def create_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder, which is renamed to `folder` if the block succeeds.

    The block syncs its files; this function syncs the folder's entries. Raises FileExistsError if
    `folder` has files.
    """
    require_empty_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    temporary.mkdir()
    mode = temporary.stat().st_mode  # set by the user's umask; copying files may change it
    try:
        yield temporary
        # Synced before the rename, so that a power failure never leaves an incomplete folder.
        sync_folder(temporary)
        temporary.chmod(mode)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary)
        raise
    sync_folder(folder.parent)
