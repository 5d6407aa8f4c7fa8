"""Errors of a memory on disk. Each message says what to do."""

import sqlite3
from pathlib import Path

from munkey.core.console import pluralize
from munkey.deploy.errors import UnreadableModelError, format_first_ten

BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
ACCESS_CODES = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


class UnreadableMemoryError(UnreadableModelError):
    """The folder is not a memory that this version can read. Nothing in it was changed."""


class LockedMemoryError(BlockingIOError):
    """Another process has the memory open for writing, or keeps it busy."""


class ClosedMemoryError(RuntimeError):
    """The memory is closed, by its user or after a failure, or is open for reading only."""


class UnknownIdsError(KeyError):
    """Ids that are not in the memory. ids: all of them, ascending."""

    def __init__(self, ids: list[int]) -> None:
        super().__init__(ids)
        self.ids = ids

    def __str__(self) -> str:
        count = pluralize(len(self.ids), "id")
        return f"{count} not in the memory, so nothing was deleted: {format_first_ten(self.ids)}"


def translate_sqlite_error(
    path: Path, error: sqlite3.DatabaseError | UnicodeDecodeError
) -> Exception:
    """Translate a SQLite error to a busy, inaccessible or damaged memory."""
    # The low byte is the error; the rest of an extended code is a detail.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in BUSY_CODES:
        return LockedMemoryError(f"{path}: kept busy by another process; try again")
    if code in ACCESS_CODES:
        return OSError(
            f"{path}: {error}; even a reader needs write access to the folder, and space on the disk"
        )
    return UnreadableMemoryError(path, f"damaged ({error})")
