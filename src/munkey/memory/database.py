"""A SQLite database that threads and processes share: connections, locks, transactions.

Readers and writers use separate connections, because `PRAGMA data_version` does not show what its
own connection commits. Every change runs under a file lock: concurrent commits and checkpoints can
corrupt a database in write-ahead mode before SQLite 3.51.3 (sqlite.org/wal.html#walresetbug).
"""

import errno
import fcntl
import os
import shutil
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from munkey.memory.errors import (
    BUSY_CODES,
    ClosedMemoryError,
    LockedMemoryError,
    UnreadableMemoryError,
    translate_sqlite_error,
)

SIDE_FILES = ("-wal", "-shm", "-lock")  # suffixes of the files beside the database
# SQLite would copy such a file's pages into the database. In write-ahead mode, it writes none.
FOREIGN_JOURNAL = "-journal"
CLOSE_PATIENCE_S = 10.0  # seconds that a database waits for changes by others when it is closed
POLL_S = 0.002  # seconds between two attempts to get the file lock
SQLITE_PATIENCE_MS = 30_000  # for readers, while another process recovers a log
# How a connection that changes the database is set up. Each setting is read back.
WRITER_SETTINGS = {
    "journal_mode": "wal",
    "synchronous": 2,  # FULL: a commit is on disk when it returns
    "secure_delete": 1,
    "wal_autocheckpoint": 0,  # a checkpoint runs under the file lock, after the commit
    "cache_size": -16_384,  # KiB, for the inner pages of 1,000,000 rows
}

Identity = tuple[int, int] | None  # of a file: its device and inode; None for a missing file

# By their `id`. A set could change while a thread that forks lists it.
_OPEN_DATABASES: "weakref.WeakValueDictionary[int, Database]" = weakref.WeakValueDictionary()
_FORKING = threading.local()  # .databases: those that a thread has locked for its fork
# In a forked child: the connections that its parent had open, by path. SQLite believes that the
# child holds their locks, so it must not use them, close them, or open the same file.
_INHERITED: dict[Path, list[sqlite3.Connection]] = {}


def _list_open_databases() -> "list[Database]":
    databases = [reference() for reference in _OPEN_DATABASES.valuerefs()]
    return [database for database in databases if database is not None]


def _close_before_fork() -> None:
    """Close all connections, so that a child can open the same files.

    They are opened again when they are used next. Only a change or a verification under way keeps
    its own.
    """
    # Always in the same order, or two threads that fork could wait for each other.
    _FORKING.databases = sorted(_list_open_databases(), key=id)
    for database in _FORKING.databases:
        database.change_lock.acquire()
        database.read_lock.acquire()
        database.close_unused_connections()


def _unlock_after_fork() -> None:
    for database in reversed(_FORKING.databases):
        database.read_lock.release()
        database.change_lock.release()
    del _FORKING.databases


def _abandon_in_child() -> None:
    for database in _list_open_databases():
        database.abandon()
    _OPEN_DATABASES.clear()  # a fork of this child need not wait for them
    _unlock_after_fork()


os.register_at_fork(
    before=_close_before_fork,
    after_in_parent=_unlock_after_fork,
    after_in_child=_abandon_in_child,
)


def _identify(name: str) -> Identity:
    try:
        status = os.stat(name)  # noqa: PTH116  # a tenth of the time of Path.stat
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _pin_file(path: Path) -> int | None:
    """Return a descriptor that keeps the inode of a file from being used again, on Linux.

    Otherwise, a file that replaces it might get the same one while a fork has closed the connections.
    """
    if not hasattr(os, "O_PATH"):
        return None
    # Unlike others, a descriptor of this kind can be closed without losing SQLite's locks.
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _is_file_at(descriptor: int, name: str) -> bool:
    """Return whether an open file still has a name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(name))  # noqa: PTH116
    except FileNotFoundError:
        return False


class Database:
    """A SQLite file, open for reading; the connection for changes is opened by the first change.

    Parameters
    ----------
    path
        The file. It must exist.
    wait
        Seconds that a change waits for others.

    Raises
    ------
    UnreadableMemoryError
        If the file is not a SQLite database, or is damaged.
    LockedMemoryError
        If other processes keep it busy for longer than `wait`.
    OSError
        If it cannot be accessed.
    ClosedMemoryError
        If it is closed, was opened by another process, or was changed while this process was forked.
    """

    # Also of a database that could not be opened, when it is collected.
    _reader: sqlite3.Connection | None = None
    _writer: sqlite3.Connection | None = None
    _lock_descriptor: int | None = None
    _pin: int | None = None

    def __init__(self, path: Path, wait: float) -> None:
        self.path = path
        self.wait = wait
        for file in (path, *(Path(f"{path}{suffix}") for suffix in SIDE_FILES)):
            _require_plain_file(file)
        if not path.exists():
            raise UnreadableMemoryError(path, "not found")
        self._process = os.getpid()
        self._is_closed = False
        self._lock_depth = 0  # of nested blocks that hold the file lock
        # Not paths: these are looked up several times in every change.
        self._watched = (os.fspath(path), f"{path}-wal", f"{path}-shm")
        self._pin = _pin_file(path)
        self._identity = _identify(self._watched[0])
        self._log_identities: list[Identity] = []
        self._opened_count = 0  # how often the reader was opened
        self._long_readers: list[sqlite3.Connection] = []
        # A thread takes the change lock before the read lock.
        self.change_lock = threading.RLock()
        self.read_lock = threading.RLock()
        _OPEN_DATABASES[id(self)] = self
        try:
            with self.read_lock:
                self._get_reader()
        except BaseException:
            self.close()
            raise

    def _connect(self, mode: str) -> sqlite3.Connection:
        if self.path in _INHERITED:
            raise ClosedMemoryError(
                f"{self.path}: this process was forked during a change or a verification of it; start"
                " the process with `spawn`, or fork it before or afterwards"
            )
        _require_no_journal(self.path)
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        with self.translate_errors():
            connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False
            )
            try:
                # A writer does not wait in SQLite: a checkpoint that waits for a reader would keep
                # all others waiting.
                patience = SQLITE_PATIENCE_MS if mode == "ro" else 0
                connection.execute(f"PRAGMA busy_timeout={patience}")
                connection.execute("PRAGMA trusted_schema=OFF")
                connection.execute("PRAGMA cell_size_check=ON")
                # Opens the write-ahead log, and creates it if there is none.
                connection.execute("PRAGMA user_version").fetchone()
            except BaseException:
                connection.close()
                raise
        return connection

    def _get_reader(self) -> sqlite3.Connection:
        """Return the connection for reading. The caller must hold the read lock."""
        if self._reader is None:
            self._reader = self._connect("ro")
            self._opened_count += 1
            self._log_identities = list(map(_identify, self._watched[1:]))
        return self._reader

    def _get_writer(self) -> sqlite3.Connection:
        """Return the connection for changes. The caller must hold the file lock."""
        with self.read_lock:
            self._get_reader()  # which notes the files that both have open
        if self._writer is None:
            writer = self._connect("rw")
            try:
                with self.translate_errors():
                    _apply_settings(self.path, writer)
            except BaseException:
                writer.close()
                raise
            self._writer = writer
        return self._writer

    # Whether it is still the same database

    @property
    def is_open(self) -> bool:
        """Whether the database is open in this process."""
        return not self._is_closed and os.getpid() == self._process

    def require_open(self) -> None:
        if not self.is_open:
            raise ClosedMemoryError(
                f"{self.path}: closed, or opened by another process; open it again"
            )

    @property
    def is_in_place(self) -> bool:
        """Whether the open files are still those that have the names."""
        return self.is_open and self._has_its_files()

    def _has_its_files(self) -> bool:
        identity, *log_identities = map(_identify, self._watched)
        if identity != self._identity:
            return False
        # After a fork, no connection needs the log, and others may have removed it.
        return self._reader is None or log_identities == self._log_identities

    def _require_in_place(self) -> None:
        # Without its name, no other process would find what is committed to the file.
        if not self._has_its_files():
            raise OSError(
                f"{self.path}: it, its write-ahead log, or the log's index was replaced or removed"
                " while it was open; open it again"
            )

    # Reading

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise the errors of `translate_sqlite_error` for those of SQLite."""
        try:
            yield
        # Python raises UnicodeDecodeError for text that is not UTF-8.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise translate_sqlite_error(self.path, error) from error

    def read_data_version(self) -> tuple[int, int]:
        """Return numbers that change after every commit. The caller must hold the read lock.

        Raises OSError if the files are no longer those that have the names.
        """
        self.require_open()
        self._get_reader()
        self._require_in_place()
        return self.read_unchecked_data_version()

    def read_unchecked_data_version(self) -> tuple[int, int]:
        """Return the numbers right after a change, which has checked the files."""
        self.require_open()
        with self.translate_errors():
            [version] = self._get_reader().execute("PRAGMA data_version").fetchone()
        # SQLite's number is that of a connection.
        return self._opened_count, int(version)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one read transaction, so that all its queries see the same state."""
        # Checked before the lock is taken, too: in a forked child, a thread that no longer exists
        # may hold the lock forever.
        self.require_open()
        with self.read_lock, self.translate_errors():
            self.require_open()
            reader = self._get_reader()
            reader.execute("BEGIN")
            try:
                yield reader
            finally:
                with suppress(sqlite3.DatabaseError):  # the block's own error says more
                    reader.execute("ROLLBACK")

    @contextmanager
    def read_for_long(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a read transaction of its own, while other threads read."""
        self.require_open()
        connection = self._connect("ro")
        self._long_readers.append(connection)
        try:
            with self.translate_errors():
                connection.execute("BEGIN")
                yield connection
        finally:
            connection.close()
            self._long_readers.remove(connection)

    # Changing

    @contextmanager
    def lock_changes(self, wait: float | None = None) -> Iterator[None]:
        """Keep all other threads and processes from changing the database during the block.

        Blocks may be nested.

        Raises LockedMemoryError if another one keeps this lock for more than `wait` seconds.
        """
        if wait is None:
            wait = self.wait
        self.require_open()
        if not self.change_lock.acquire(timeout=min(wait, threading.TIMEOUT_MAX)):
            raise LockedMemoryError(f"{self.path}: kept busy by another thread; try again")
        try:
            self.require_open()
            if not self._lock_depth:
                self._lock_file(wait)
            self._lock_depth += 1
            try:
                yield
            finally:
                self._lock_depth -= 1
                # The descriptor is closed in a forked child.
                if not self._lock_depth and self._lock_descriptor is not None:
                    # Explicitly: a child that is being forked may still have it open.
                    fcntl.flock(self._lock_descriptor, fcntl.LOCK_UN)
        finally:
            self.change_lock.release()

    def _lock_file(self, wait: float) -> None:
        """Lock the file with the suffix -lock until it is unlocked, or this process ends."""
        name = f"{self.path}-lock"
        deadline = time.monotonic() + wait
        while True:
            if self._lock_descriptor is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                self._lock_descriptor = os.open(name, flags, 0o666)
            try:
                fcntl.flock(self._lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_file_at(self._lock_descriptor, name):
                    return
                # Others lock the file that has the name now.
                os.close(self._lock_descriptor)
                self._lock_descriptor = None
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LockedMemoryError(
                        f"{self.path}: kept busy by another process for more than {wait:g} s;"
                        " nothing was changed, try again"
                    ) from None
                time.sleep(POLL_S)

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Commit the changes of the block to the disk, or roll them back if it fails.

        The write-ahead log is empty afterwards, unless a reader needs it just now. The caller must
        hold the lock of `lock_changes`. Raises OSError if the file cannot be written. Then, the
        changes are either complete or have not happened, as the file says when it is read again.
        """
        writer = self._get_writer()
        with self.translate_errors():
            try:
                writer.execute("BEGIN IMMEDIATE")
                yield writer
                self.require_open()  # the block may have forked, and this may be the child
                writer.execute("COMMIT")
            except BaseException as error:
                if not self.is_open:
                    raise
                with suppress(sqlite3.DatabaseError):
                    writer.execute("ROLLBACK")
                if isinstance(error, sqlite3.DatabaseError):
                    self._close_writer()
                raise
        self._require_in_place()
        with suppress(OSError):  # the changes are on disk; the log is emptied later then
            self.empty_log()

    def empty_log(self) -> bool:
        """Move the write-ahead log into the database file, and truncate it.

        Returns False, and leaves it for later, if a reader needs it just now. The caller must hold
        the lock of `lock_changes`. Raises OSError if the log is no longer the one that has the name:
        its pages would replace what others wrote.
        """
        self._require_in_place()
        writer = self._get_writer()
        with self.translate_errors():
            try:
                [busy, *_] = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in BUSY_CODES:
                    raise
                return False
        return not busy

    @property
    def log_size(self) -> int:
        """Bytes in the write-ahead log."""
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def vacuum(self) -> None:
        """Rewrite the file, because `secure_delete` leaves copies of some deleted cells.

        The caller must hold the lock of `lock_changes`. Raises OSError if the disk has too little
        space.
        """
        needed = 2 * self.path.stat().st_size  # a temporary copy, and the write-ahead log
        free = shutil.disk_usage(self.path.parent).free
        if free < needed:
            raise OSError(
                errno.ENOSPC,
                f"a purge needs {needed / 1e6:,.0f} MB of free space, but there are"
                f" {free / 1e6:,.0f} MB; nothing was changed, purge again",
                str(self.path),
            )
        self._require_in_place()
        writer = self._get_writer()
        with self.translate_errors():
            writer.execute("VACUUM")
        self._require_in_place()

    def wait_until_log_is_empty(self, wait: float) -> None:
        """Empty the log as soon as no reader needs it. The caller must hold `lock_changes`.

        Raises LockedMemoryError if a reader needs it for more than `wait` seconds.
        """
        deadline = time.monotonic() + wait
        while not self.empty_log():
            if time.monotonic() > deadline:
                raise LockedMemoryError(
                    f"{self.path}: a reader keeps the write-ahead log; nothing is lost, purge again"
                )
            time.sleep(POLL_S)

    # Closing

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def close(self) -> None:
        """Close all connections. In a forked child, this does nothing."""
        if not self.is_open:
            return
        with self.change_lock, self.read_lock:
            with suppress(sqlite3.DatabaseError, OSError, UnreadableMemoryError):
                self._remove_empty_log()
            self._is_closed = True
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            if self._writer is not None:
                # If it is the last connection, it empties and removes the log: not while others
                # change the database. They have it open then, so it is not the last.
                with suppress(LockedMemoryError):
                    self._lock_file(CLOSE_PATIENCE_S)
                self._close_writer()
            self._close_descriptors()

    def _close_descriptors(self) -> None:
        for descriptor in (self._lock_descriptor, self._pin):
            if descriptor is not None:
                os.close(descriptor)
        self._lock_descriptor = None
        self._pin = None

    def _remove_empty_log(self) -> None:
        """Close the reader so that SQLite removes an empty log and its index, if nobody else has them.

        SQLite does so when the last connection that can write is closed.
        """
        was_opened = self._opened_count > 0
        if not was_opened or self._writer is not None or self.log_size or not self.is_in_place:
            return
        writer = self._connect("rw")
        try:
            if self._reader is not None:
                self._reader.close()
        finally:
            writer.close()

    def __del__(self) -> None:
        # Nobody closed it, because another thread might have been reading.
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._close_descriptors()

    # Forking

    def close_unused_connections(self) -> None:
        """Close the connections, unless this thread is changing the database."""
        if self._writer is not None and self._writer.in_transaction:
            return
        self._close_writer()  # first: the last connection removes the log, but not a reader
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def abandon(self) -> None:
        """Forget the connections in a forked child, without closing them."""
        connections = [self._reader, self._writer, *self._long_readers]
        inherited = [connection for connection in connections if connection is not None]
        if inherited:
            _INHERITED.setdefault(self.path, []).extend(inherited)
        self._reader = None
        self._writer = None
        self._close_descriptors()  # or the lock would outlive the parent


def is_in_use(path: Path) -> bool:
    """Return whether any process, including this one, has a database open.

    Raises UnreadableMemoryError if it is damaged, and OSError if it cannot be accessed.
    """
    _require_no_journal(path)
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
            # In write-ahead mode, each open connection holds a lock that excludes this one.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        translated = translate_sqlite_error(path, error)
        if isinstance(translated, LockedMemoryError):
            return True
        raise translated from error
    return False


def _require_plain_file(path: Path) -> None:
    """Raise UnreadableMemoryError if a path exists, but is not a regular file."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UnreadableMemoryError(path, "not a regular file, but one of the memory's files")


def _require_no_journal(path: Path) -> None:
    """Raise UnreadableMemoryError if a rollback journal lies beside a database."""
    if os.path.lexists(f"{path}{FOREIGN_JOURNAL}"):
        raise UnreadableMemoryError(
            path,
            f"{path.name}{FOREIGN_JOURNAL} lies beside it, which belongs to another database",
            "move that file away",
        )


def _apply_settings(path: Path, connection: sqlite3.Connection) -> None:
    """Apply WRITER_SETTINGS. Raises OSError if one of them has no effect."""
    for name, value in WRITER_SETTINGS.items():
        connection.execute(f"PRAGMA {name}={value}")
        [actual] = connection.execute(f"PRAGMA {name}").fetchone()
        if actual != value:
            raise OSError(f"{path}: SQLite cannot set {name} to {value} here, but to {actual}")


def query_one(connection: sqlite3.Connection, statement: str, *values: Any) -> tuple[Any, ...]:
    """Run a statement that has exactly one row, and return it."""
    [row] = connection.execute(statement, values).fetchall()
    return tuple(row)
