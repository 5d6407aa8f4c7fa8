"""What can go wrong with a memory on disk, in words that a person can act on."""

import sqlite3
from pathlib import Path

from munkey.core.console import counted
from munkey.deploy.errors import UnreadableModelError, first_ten

BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
OUTSIDE = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


class UnreadableMemoryError(UnreadableModelError):
    """The folder is not a memory that this version can read; nothing in it was changed."""


class LockedMemoryError(BlockingIOError):
    """Another process has the memory open for writing, or keeps it busy."""


class ClosedMemoryError(RuntimeError):
    """The memory was closed, by its user or by a failure, or is open for reading only."""


class UnknownIdsError(KeyError):
    """Ids that the memory does not hold. ids: all of them, ascending."""

    def __init__(self, ids: list[int]) -> None:
        super().__init__(ids)
        self.ids = ids

    def __str__(self) -> str:
        return f"{counted(len(self.ids), 'id')} not in the memory, so nothing was deleted: {first_ten(self.ids)}"


def failure(path: Path, error: sqlite3.DatabaseError | UnicodeDecodeError) -> Exception:
    """What an error of SQLite means: that its file is busy, out of reach, or damaged."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in BUSY:
        return LockedMemoryError(f"{path}: kept busy by another process; try again")
    if code in OUTSIDE:
        return OSError(
            f"{path}: {error}; even a reader needs a folder that it may write to and a disk that has space"
        )
    return UnreadableMemoryError(path, f"damaged ({error})")
