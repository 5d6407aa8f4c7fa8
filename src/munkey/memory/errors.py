"""Errors of a memory in a file."""

import errno
import sqlite3
from pathlib import Path

from munkey.core.console import format_first_ten, pluralize

BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
ACCESS_CODES = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


class UnreadableModelError(ValueError):
    """The directory is not a model that this version can read. Nothing in it was changed."""

    def __init__(
        self, path: Path, why: str, what_to_do: str = "put an undamaged copy there"
    ) -> None:
        """Format the message. path: the faulty file or folder. why: its fault."""
        super().__init__(f"{path}: {why}. Nothing was changed; {what_to_do}")


class UnreadableMemoryError(UnreadableModelError):
    """The file or folder is not a memory that this version can read. Nothing in it was changed."""


class LockedMemoryError(BlockingIOError):
    """Another process keeps the memory busy."""


class ClosedMemoryError(RuntimeError):
    """The memory is closed, or was opened by another process."""


class UnknownIdsError(KeyError):
    """Some ids are not in the memory. `ids` lists all of them, in ascending order."""

    def __init__(self, ids: list[int]) -> None:
        super().__init__(ids)
        self.ids = ids

    def __str__(self) -> str:
        count = pluralize(len(self.ids), "id")
        return f"{count} not in the memory, so nothing was deleted: {format_first_ten(self.ids)}"


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
    if code == sqlite3.SQLITE_FULL:
        return OSError(errno.ENOSPC, "the disk is full; free some space and try again", str(path))
    if code in ACCESS_CODES:
        return OSError(
            f"{path}: {error}; even a reader needs write access to the folder, and space on the disk"
        )
    return UnreadableMemoryError(path, f"damaged ({error})")
