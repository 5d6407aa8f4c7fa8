"""Errors of a memory on disk, which the old store shares with `munkey.memory.memory_file`."""

from munkey.memory.errors import (
    ClosedMemoryError,
    LockedMemoryError,
    UnknownIdsError,
    UnreadableMemoryError,
    translate_sqlite_error,
)

__all__ = [
    "ClosedMemoryError",
    "LockedMemoryError",
    "UnknownIdsError",
    "UnreadableMemoryError",
    "translate_sqlite_error",
]
