"""File operations of the store, except SQLite's. Tests replace them to simulate data loss."""

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from munkey.deploy.store.errors import LockedMemoryError, UnreadableMemoryError

PATIENCE_S = 60.0  # seconds that readers and a compaction wait for each other
# A forked child must not keep these descriptors open: its parent's lock would outlive the parent.
_LOCKS: set[int] = set()


def _close_inherited_locks() -> None:
    for descriptor in _LOCKS:
        os.close(descriptor)
    _LOCKS.clear()


os.register_at_fork(after_in_child=_close_inherited_locks)


def open_file(path: Path, flags: int) -> int:
    """Open a file and return its descriptor. Raises OSError for a symbolic link.

    A pipe reads as an empty file.
    """
    # A link could make the memory overwrite a file elsewhere. Without O_NONBLOCK, opening a pipe
    # would block.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)


def require_plain_file(path: Path) -> None:
    """Raise UnreadableMemoryError if a path exists, but is not a regular file."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UnreadableMemoryError(path, "not a regular file, but one of the memory's files")


def write(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all data at an offset in bytes. It is on disk only after `sync`."""
    unwritten = memoryview(data).cast("B")
    while unwritten:
        written_count = os.pwrite(descriptor, unwritten, offset)  # may write fewer bytes
        unwritten = unwritten[written_count:]
        offset += written_count


def truncate(descriptor: int, size: int) -> None:
    os.ftruncate(descriptor, size)


def sync(descriptor: int) -> None:
    """Wait until the file's content and size are on disk."""
    # macOS has no fdatasync, which skips the file's times.
    sync_content = getattr(os, "fdatasync", os.fsync)
    sync_content(descriptor)


def sync_file(path: Path) -> None:
    """Wait until a file that other code wrote, such as SQLite, is on disk."""
    descriptor = open_file(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


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
def create_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder, which is renamed to `folder` if the block succeeds.

    If the block fails, the hidden folder is removed; if the process is killed, it stays. The block
    must sync the files that it writes; this function syncs the folder's entries. Raises
    FileExistsError if `folder` contains files.
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


def _flock(descriptor: int, kind: int, wait: float) -> None:
    """Lock an open folder. Raises BlockingIOError if it is not free within `wait` seconds.

    kind: LOCK_SH for a shared lock, LOCK_EX for an exclusive one.
    """
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.005)


def lock(folder: Path, wait: float = 0.0) -> int:
    """Lock a folder until `unlock`, or until this process ends. Returns the lock's descriptor.

    The lock is on the folder itself, because anyone could remove a lock file. The file `lock` only
    records the process id. Raises LockedMemoryError if another process keeps the lock for more than
    `wait` seconds.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _flock(descriptor, fcntl.LOCK_EX, wait)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(open_file(folder / "lock", flags), "w") as holder:
            holder.write(str(os.getpid()))
    except BlockingIOError:
        os.close(descriptor)
        process = _read_holder(folder / "lock")
        raise LockedMemoryError(
            f"{folder}: already open for writing elsewhere (process {process});"
            " a memory has one writer at a time"
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    _LOCKS.add(descriptor)
    return descriptor


def lock_generation(folder: Path, *, exclusive: bool = False) -> int:
    """Lock a generation, shared for readers or exclusively for a compaction.

    Returns the lock's descriptor. Raises LockedMemoryError if it is not free within PATIENCE_S
    seconds, and OSError if the generation is not a folder.
    """
    if exclusive:
        kind = fcntl.LOCK_EX
        holder = "a reader"
    else:
        kind = fcntl.LOCK_SH
        holder = "a compaction"
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(folder, flags)
    try:
        _flock(descriptor, kind, PATIENCE_S)
    except BlockingIOError:
        os.close(descriptor)
        raise LockedMemoryError(
            f"{folder}: {holder} has locked it for more than {PATIENCE_S:g} s; nothing was"
            " changed, try again"
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    _LOCKS.add(descriptor)
    return descriptor


def _read_holder(path: Path) -> str:
    """Read the id of the process that holds the lock; `unknown` if it is not recorded."""
    try:
        return path.read_bytes()[:20].decode("ascii", "replace").strip() or "unknown"
    except OSError:
        return "unknown"


def unlock(descriptor: int) -> None:
    """Release a lock. In a forked child, which has no locks, this does nothing."""
    if descriptor in _LOCKS:
        _LOCKS.discard(descriptor)
        # Explicitly: a child that is being forked may still have it open.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
