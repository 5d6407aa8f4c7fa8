"""Errors of a memory on disk."""

import sqlite3
from pathlib import Path

from munkey.deploy.errors import UnreadableModelError
from munkey.memory.errors import (
    ACCESS_CODES,
    BUSY_CODES,
    ClosedMemoryError,
    LockedMemoryError,
    UnknownIdsError,
)

__all__ = [
    "ClosedMemoryError",
    "LockedMemoryError",
    "UnknownIdsError",
    "UnreadableMemoryError",
    "translate_sqlite_error",
]


class UnreadableMemoryError(UnreadableModelError):
    """The folder is not a memory that this version can read. Nothing in it was changed."""


def translate_sqlite_error(
    path: Path, error: sqlite3.DatabaseError | UnicodeDecodeError
) -> Exception:
    """Return the error to raise instead of a SQLite error.

    This is LockedMemoryError if the file is busy, OSError if it cannot be accessed, and
    UnreadableMemoryError otherwise.
    """
    # The low byte is the primary error code; the other bits of an extended code add details.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in BUSY_CODES:
        return LockedMemoryError(f"{path}: kept busy by another process; try again")
    if code in ACCESS_CODES:
        return OSError(
            f"{path}: {error}; even a reader needs write access to the folder, and space on the disk"
        )
    return UnreadableMemoryError(path, f"damaged ({error})")
