"""Everything that the store writes beside SQLite: these functions, so that a test can lose what was not synced."""

import fcntl
import os
from pathlib import Path

from munkey.memory.store.errors import LockedMemoryError

_LOCKS: set[int] = set()  # descriptors that a forked child must not keep open, or its parent's lock would outlive it


def _forget_locks() -> None:
    for descriptor in _LOCKS:
        os.close(descriptor)
    _LOCKS.clear()


os.register_at_fork(after_in_child=_forget_locks)


def opened(path: Path, flags: int) -> int:
    """A descriptor of a file that is no link. Raises OSError, e.g. for a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def write(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of the data at an offset. It is on the disk only after `sync`."""
    rest = memoryview(data).cast("B")
    while rest:
        done = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[done:], offset + done


def cut(descriptor: int, size: int) -> None:
    os.ftruncate(descriptor, size)


def sync(descriptor: int) -> None:
    """Wait until the file's content and size are on the disk."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path) -> int:
    """A lock that ends with this process. Raises LockedMemoryError where another one has it."""
    descriptor = opened(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        said = (
            f"{path.parent}: open for writing elsewhere already (process {holder}); a memory has one writer at a time"
        )
        raise LockedMemoryError(said) from None
    _LOCKS.add(descriptor)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def unlock(descriptor: int) -> None:
    """Release a lock. In a forked child, which has none, nothing happens."""
    if descriptor in _LOCKS:
        _LOCKS.discard(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # also where a child that is being forked has it open still
        os.close(descriptor)
