"""Reading and writing files so that a killed job or a full disk leaves no half file that looks whole."""

import csv
import errno
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


class DamagedFileError(ValueError):
    """A file of the pipeline cannot be what it should be; the message says which one and what to do."""

    def __init__(self, path: str | Path, why: str) -> None:
        super().__init__(f"{path}: {why}. Delete this file and run again: it is made anew, nothing else is lost")


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that takes its place only if the block succeeds.

    Raises OSError that names `path` when it cannot be written, e.g. on a full disk; what stood there before stays.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        why = error.strerror or f"{error}: is the disk full?"  # numpy names no error number
        said = f"cannot be written ({why}); no half file was left"
        raise OSError(error.errno or errno.EIO, said, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedFileError(path, f"not valid JSON ({error})") from error


def write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
    """Write rows of equal keys under a header line. columns: the keys, for rows that there may be none of."""
    with atomic(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=columns or list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: str | Path) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def write_npy(path: str | Path, array: np.ndarray) -> None:
    with atomic(path) as temporary:
        np.save(temporary, array)


def write_npz(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    with atomic(path) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]


def read_npz(path: str | Path, *names: str) -> dict[str, np.ndarray]:
    """The named arrays of an NPZ file. Raises DamagedFileError where it is truncated or lacks one."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            missing = set(names) - set(archive.files)
            if missing:
                raise DamagedFileError(path, f"lacks the arrays {sorted(missing)}")
            return {name: archive[name] for name in names or archive.files}
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(path, f"truncated or not an NPZ file ({error})") from error
