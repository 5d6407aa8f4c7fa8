"""A memory in one file, a SQLite database, that forgets durably (docs/memory.md).

Any thread or process may read, add, and delete at any time.
"""

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import pluralize
from munkey.core.files import sync_folder
from munkey.core.ids import NO_LABEL, NO_NEIGHBOR
from munkey.data.intake.unit_names import normalize_name, unit_name
from munkey.memory.chain import (
    Receipt,
    compute_first_head,
    compute_log_entry,
    compute_next_head,
    compute_next_mark,
    to_bytes,
    to_datetime,
)
from munkey.memory.database import FOREIGN_JOURNAL, SIDE_FILES, Database, query_one
from munkey.memory.errors import (
    UnknownIdsError,
    UnreadableMemoryError,
    translate_sqlite_error,
)
from munkey.memory.memory import Columns, Memory, make_columns, make_room
from munkey.memory.rows import (
    COMMITTED,
    DIGEST,
    Source,
    check_contents,
    check_ids,
    check_matrix,
    check_texts,
    commit_rows,
    digest_keys,
)
from munkey.memory.verify import (
    MemoryReport,
    check_memory,
    find_chain_faults,
    find_wrong_row,
    read_links,
)

MEMORY_FORMAT = 5  # version of the format of the file
MAX_WIDTH = 1 << 20  # maximum width of a key or token
APPLICATION_ID = 0x6D756E6B  # "munk", which distinguishes a memory from other SQLite files
BLOCK = 256  # rows that are read at a time; few, so that they stay in the cache of the processor
WAIT_S = 60.0  # seconds that a change waits for others; a purge of 1,000,000 rows takes 7
SCHEMA = """
CREATE TABLE state (store BLOB, key_width INTEGER, token_width INTEGER, last_number INTEGER, row_count INTEGER,
                    next_id INTEGER, purged INTEGER, purged_at INTEGER, classes TEXT, secret BLOB, seal BLOB);
CREATE TABLE rows (number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER, label INTEGER, content BLOB, added INTEGER,
                   unit TEXT, file TEXT, salt BLOB, commitment BLOB);
CREATE TABLE vectors (number INTEGER PRIMARY KEY, key BLOB, token BLOB);
CREATE TABLE dropped (sequence INTEGER PRIMARY KEY, number INTEGER);
CREATE TABLE log (sequence INTEGER PRIMARY KEY, at INTEGER, entry BLOB, head BLOB);
CREATE TABLE deletions (number INTEGER PRIMARY KEY, first INTEGER, last INTEGER, at INTEGER, request TEXT, mark BLOB);
CREATE UNIQUE INDEX by_request ON deletions (request) WHERE request IS NOT NULL;
CREATE TABLE blocked (hash BLOB PRIMARY KEY, deletion INTEGER) WITHOUT ROWID;
"""
# SQLite makes this table itself, for AUTOINCREMENT.
STATEMENTS = {*SCHEMA.strip(";\n").split(";\n"), "CREATE TABLE sqlite_sequence(name,seq)"}
LAST_SEQUENCE = "IFNULL((SELECT max(sequence) FROM log), 0)"
LAST_HEAD = "IFNULL((SELECT head FROM log ORDER BY sequence DESC LIMIT 1), x'')"
LAST_MARK = "IFNULL((SELECT mark FROM deletions ORDER BY number DESC LIMIT 1), x'')"
OTHER_VERSION = (
    "use the version of munkey that wrote it, or export the model again and repeat the deletions"
)
# Errors that values of a wrong type or size in a damaged file lead to.
INVALID = ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error
Class = str | bool | int | float | None  # the name of a class; None once it is forgotten


class Classes(NamedTuple):
    """The classes that labels refer to.

    names: by label; None for a class whose name was forgotten. dtype: the NumPy dtype of all names,
    for estimators.
    """

    names: tuple[Class, ...] = ()
    dtype: str | None = None

    @property
    def texts(self) -> list[str]:
        """The names as strings; empty for a class whose name was forgotten."""
        return ["" if name is None else str(name) for name in self.names]

    def add(self, names: Iterable[Class], dtype: str | None = None) -> "Classes":
        """Return classes with these names as well, at the end, except those that are there."""
        new_names = [name for name in dict.fromkeys(names) if name not in self.names]
        return Classes((*self.names, *new_names), dtype or self.dtype)

    def forget_empty(self, labels: np.ndarray) -> "Classes":
        """Return classes without the names of those that have none of these labels.

        A class may be named after a person.
        """
        names = list(self.names)
        for label in set(range(len(names))) - set(labels.tolist()):
            names[label] = None
        return self._replace(names=tuple(names))


NO_CLASSES = Classes()


@lru_cache(maxsize=4)
def parse_classes(text: str) -> Classes:
    """Parse the classes of a state. Raises ValueError or TypeError if it is damaged."""
    try:
        names, dtype = json.loads(text)
    except RecursionError as error:
        raise ValueError("the names of its classes are nested") from error
    if not isinstance(names, list) or not all(isinstance(name, Class) for name in names):
        raise TypeError("the names of its classes are not a list of texts or numbers")
    if dtype is not None:
        _require_class_type(names, dtype)
    return Classes(tuple(names), dtype)


def _require_class_type(names: list[Class], dtype: object) -> None:
    """Raise TypeError, ValueError or OverflowError unless classes of these names can have a dtype."""
    present = [name for name in names if name is not None]
    texts = [name for name in present if isinstance(name, str)]
    if dtype == "<U" and len(texts) == len(present):
        return
    if texts or not isinstance(dtype, str) or np.dtype(dtype).kind not in "biuf":
        raise TypeError(f"its classes cannot be of type {dtype!r:.40}")
    np.array(present, dtype)  # raises an error for a number out of range


class State(NamedTuple):
    """The state of a memory.

    store: the name of the memory, 16 random bytes. key_width, token_width: width of a key and of a
    token. last_number: the largest row number so far. row_count: number of rows. next_id: larger than
    every id so far. purged: no file holds bytes of rows that were deleted up to this sequence
    number. purged_at: when the last purge ended, in microseconds since 1970; 0 before the first.
    classes: `Classes` in JSON. secret: the key for hashes of blocked contents, 32 random bytes.
    """

    store: bytes
    key_width: int
    token_width: int
    last_number: int
    row_count: int
    next_id: int
    purged: int
    purged_at: int
    classes: str
    secret: bytes

    def is_plausible(self) -> bool:
        """Return whether all values are in range. A damaged file may contain any values."""
        has_widths = 0 < self.key_width <= MAX_WIDTH and 0 < self.token_width <= MAX_WIDTH
        has_counts = (
            0 <= self.row_count <= self.last_number
            and min(self.next_id, self.purged, self.purged_at) >= 0
        )
        has_names = len(self.store) == 16 and len(self.secret) == 32
        return has_widths and has_counts and has_names

    def compute_seal(self, head: bytes, mark: bytes) -> bytes:
        """Return SHA-256(head || mark || state), where the state includes the secret.

        Any later change of the head, the mark or the state changes the seal. head: the head of the
        chain of deletions. mark: the mark of the last deletion, or empty before the first.
        """
        numbers_as_bytes = to_bytes(
            self.key_width,
            self.token_width,
            self.last_number,
            self.row_count,
            self.next_id,
            self.purged,
            self.purged_at,
        )
        state_as_bytes = self.store + numbers_as_bytes + self.secret + self.classes.encode()
        return hashlib.sha256(head + mark + state_as_bytes).digest()


class MemoryPosition(NamedTuple):
    """A value that changes whenever rows are added or deleted, or a class is named.

    sequence: number of deleted rows. last_number: the largest row number so far.
    """

    sequence: int
    last_number: int
    classes: str


class Snapshot(NamedTuple):
    """The memory at one position.

    sequence: number of links in the chain of deletions. head: its head. mark: the mark of the last
    deletion; empty before the first.
    """

    memory: Memory
    state: State
    sequence: int
    head: bytes
    mark: bytes

    @property
    def position(self) -> MemoryPosition:
        return MemoryPosition(self.sequence, self.state.last_number, self.state.classes)

    @property
    def classes(self) -> Classes:
        return parse_classes(self.state.classes)


class NewRows(NamedTuple):
    """Rows to add, which were checked. sources: the file and unit of each row."""

    ids: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray
    labels: np.ndarray
    sources: list[Source]
    contents: np.ndarray


def check_rows(  # noqa: PLR0913  # the parts of a row
    ids: ArrayLike,
    keys: ArrayLike,
    tokens: ArrayLike,
    labels: ArrayLike | None = None,
    files: Sequence[str | None] | None = None,
    units: Sequence[str | None] | None = None,
    contents: ArrayLike | None = None,
) -> NewRows:
    """Check rows to add, and normalize the names of units. Raises ValueError for invalid input.

    contents: (N, 16) uint8; by default, digests of the keys.
    """
    ids = check_ids(ids)
    if len(np.unique(ids)) != len(ids):
        raise ValueError("an id occurs more than once among the rows to add")
    file_names = check_texts("source file", files, len(ids))
    # Each unit has one spelling in a memory, so that none of its rows is missed.
    unit_names = []
    for unit in check_texts("unit", units, len(ids)):
        unit_names.append(None if unit is None else unit_name(unit))
    key_matrix = check_matrix("keys", keys, len(ids))
    new_rows = NewRows(
        ids=ids,
        keys=key_matrix,
        tokens=check_matrix("tokens", tokens, len(ids)),
        labels=np.full(len(ids), NO_LABEL) if labels is None else check_ids(labels),
        sources=list(zip(file_names, unit_names, strict=True)),
        contents=digest_keys(key_matrix) if contents is None else check_contents(contents),
    )
    for name, column in (("labels", new_rows.labels), ("contents", new_rows.contents)):
        if len(column) != len(ids):
            raise ValueError(f"{len(column)} {name} for {len(ids)} ids")
    return new_rows


class MemoryFile(AbstractContextManager["MemoryFile"]):
    """A memory in one file, which forgets durably.

    Open it with `MemoryFile.open`, or create one with `MemoryFile.create`. Any number of threads
    and processes may read, add, and delete at the same time; changes wait for one another.

    Attributes
    ----------
    path : Path
        The file. SQLite keeps two more beside it, with the suffixes -wal and -shm, while it is open;
        a -wal that is not empty belongs to the memory. The file with the suffix -lock is empty.

    Raises
    ------
    ClosedMemoryError
        If the memory is closed, or was opened by another process, such as the parent of a forked
        child.
    LockedMemoryError
        If other threads or processes keep it busy for too long. Nothing was changed then.
    OSError
        If the file cannot be read or written. If that happens during a change, it is either
        complete or has not happened; `snapshot` says which.
    UnreadableMemoryError
        If the file is damaged.

    Examples
    --------
    >>> import numpy as np
    >>> from munkey.memory.memory_file import MemoryFile
    >>> keys = np.eye(3, dtype=np.float32)
    >>> with MemoryFile.create("memory.db", [10, 11, 12], keys, keys) as file:
    ...     receipt = file.delete([11])
    ...     memory = file.snapshot().memory
    ...     print(receipt.sequences, memory.ids[memory.live])
    range(1, 2) [10 12]
    """

    def __init__(self, path: Path, wait: float) -> None:
        """Use `MemoryFile.open` instead."""
        self.path = path
        self._database = Database(path, wait)
        self._snapshot: Snapshot | None = None
        self._data_version = (0, 0)  # of the database when the snapshot was read
        try:
            with self._database.read() as connection:
                self._check_format(connection)
                state, *_ = self._read_state(connection)
                wrong_row = find_wrong_row(connection, state.store, state.last_number)
            if wrong_row is not None:
                raise UnreadableMemoryError(
                    path,
                    f"damaged: row {wrong_row} does not match its commitment; a part of the file, or"
                    " its write-ahead log, was changed or is from another memory",
                )
            if self._database.log_size:
                # The process that wrote it was killed, or a reader was in its way.
                with suppress(OSError):
                    self.empty_log(wait=0)
        except BaseException:
            self._database.close()
            raise

    @classmethod
    def create(  # noqa: PLR0913  # the parts of a row
        cls,
        path: str | Path,
        ids: ArrayLike,
        keys: ArrayLike,
        tokens: ArrayLike,
        labels: ArrayLike | None = None,
        files: Sequence[str | None] | None = None,
        units: Sequence[str | None] | None = None,
        contents: ArrayLike | None = None,
        *,
        classes: Classes = NO_CLASSES,
        next_id: int = 0,
        name: bytes | None = None,
    ) -> "MemoryFile":
        """Create a memory, and open it. If this fails, no file is left behind.

        Parameters
        ----------
        path : str or Path
            The new file.
        ids : array-like of int, shape (N,)
            Ids of the rows, not negative.
        keys, tokens : array-like of float, shape (N, d) and (N, m)
            Key and token of each row.
        labels : array-like of int, shape (N,), optional
            The class index of each row. By default, unknown.
        files, units : sequence of str or None, length N, optional
            The source file of each row, and its unit, such as a person. They are forgotten together
            with the row.
        contents : array-like of uint8, shape (N, 16), optional
            Digests that are equal for identical contents. By default, digests of the keys.
        classes : Classes
            The classes that the labels refer to.
        next_id : int
            The smallest id to give to later rows. By default, the largest of `ids`, plus 1.
        name : bytes, optional
            The name of the memory, 16 random bytes. By default, they are drawn here.

        Returns
        -------
        MemoryFile
            The open memory.

        Raises
        ------
        ValueError
            If an id is negative or repeated, if keys or tokens are not finite floats, or if the
            lengths differ.
        FileExistsError
            If the file exists.
        OSError
            If the file cannot be written, for example because the disk is full.
        """
        path = Path(path).absolute()
        new_rows = check_rows(ids, keys, tokens, labels, files, units, contents)
        state = State(
            store=name or secrets.token_bytes(16),
            key_width=new_rows.keys.shape[1],
            token_width=new_rows.tokens.shape[1],
            last_number=0,
            row_count=0,
            next_id=next_id,
            purged=0,
            purged_at=0,
            classes=json.dumps(classes),
            secret=secrets.token_bytes(32),
        )
        if not state.is_plausible():
            raise ValueError(
                f"a name must have 16 bytes, next_id must not be negative, and keys and tokens have at"
                f" most {MAX_WIDTH:,} numbers; not {len(state.store)}, {next_id}, {state.key_width:,},"
                f" and {state.token_width:,}"
            )
        parse_classes(state.classes)
        with _create_file(path) as temporary:
            cls._write_file(temporary, state, new_rows)
            # Opening it can fail, too, e.g. on a full disk. Then it must not get its name.
            cls(temporary, WAIT_S).close()
        return cls(path, WAIT_S)

    @staticmethod
    def _write_file(path: Path, state: State, new_rows: NewRows) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # It becomes the memory only once it is complete and on disk.
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={MEMORY_FORMAT}")
            connection.executescript(f"BEGIN;{SCHEMA}")
            values = ", ".join("?" * (len(State._fields) + 1))
            connection.execute(f"INSERT INTO state VALUES ({values})", (*state, b""))
            state, _ = _insert_rows(connection, state, new_rows)
            _write_state(connection, state, compute_first_head(state.store), b"")
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode=WAL")

    @classmethod
    def open(cls, path: str | Path, *, wait: float = WAIT_S) -> "MemoryFile":
        """Open a memory. wait: seconds that a change waits for others.

        Raises UnreadableMemoryError if the file is not a memory, is damaged, or has another format.
        """
        return cls(Path(path).absolute(), wait)

    def _check_format(self, connection: sqlite3.Connection) -> None:
        """Raise UnreadableMemoryError unless the file is a memory of this format."""
        if query_one(connection, "PRAGMA application_id") != (APPLICATION_ID,):
            raise UnreadableMemoryError(self.path, "not a memory")
        [version] = query_one(connection, "PRAGMA user_version")
        if version != MEMORY_FORMAT:
            why = f"of format {version}, while this munkey reads format {MEMORY_FORMAT}"
            raise UnreadableMemoryError(self.path, why, OTHER_VERSION)
        # No other tables, indexes, or triggers are allowed: a trigger could undo deletions.
        schema = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        if {statement for (statement,) in schema} != STATEMENTS:
            raise UnreadableMemoryError(self.path, "damaged: its tables are not those of a memory")
        if query_one(connection, "PRAGMA journal_mode") != ("wal",):
            what_to_do = f"run: sqlite3 {self.path} 'PRAGMA journal_mode=WAL'"
            raise UnreadableMemoryError(self.path, "not in SQLite's write-ahead mode", what_to_do)

    # Reading

    @property
    def is_in_place(self) -> bool:
        """Whether the memory is open in this process, and its files were not replaced.

        If not, open it again.
        """
        return self._database.is_in_place

    def snapshot(self) -> Snapshot:
        """Return the memory as it is now.

        Deletions and additions by any process since the last call are read from the file, without
        reading all rows again.
        """
        self._database.require_open()
        with self._database.read_lock:
            # A commit between these lines is noticed by the next call, whose number differs.
            data_version = self._database.read_data_version()
            if self._snapshot is None or data_version != self._data_version:
                with self._database.read() as connection:
                    self._snapshot = self._read_snapshot(connection)
                self._data_version = data_version
            return self._snapshot

    def _read_state(self, connection: sqlite3.Connection) -> tuple[State, int, bytes, bytes]:
        """Read the state, and the sequence number, head, and mark at the end of the chain.

        Raises UnreadableMemoryError if the state, or the end of the chain, was changed.
        """
        columns = f"{', '.join(State._fields)}, seal, {LAST_SEQUENCE}, {LAST_HEAD}, {LAST_MARK}"
        records = connection.execute(f"SELECT {columns} FROM state").fetchall()
        with self._translate_invalid_values():
            [[*fields, seal, sequence, head, mark]] = records
            state = State(*fields)
            is_plausible = state.is_plausible()
            parse_classes(state.classes)
            head = head or compute_first_head(state.store)
            is_sealed = seal == state.compute_seal(head, mark)
        if not is_plausible or not is_sealed:
            raise UnreadableMemoryError(
                self.path,
                "damaged: its state, or the last link of its chain of deletions, was changed after"
                " it was written",
            )
        return state, sequence, head, mark

    @contextmanager
    def _translate_invalid_values(self) -> Iterator[None]:
        """Raise UnreadableMemoryError for values of a wrong type, which SQLite does not prevent."""
        try:
            yield
        except UnreadableMemoryError:
            raise
        except INVALID as error:
            raise UnreadableMemoryError(
                self.path, f"damaged: its tables hold invalid values ({error})"
            ) from error

    def _read_snapshot(self, connection: sqlite3.Connection) -> Snapshot:
        """Read the memory, in a read transaction: only what has changed since the last snapshot."""
        state, sequence, head, mark = self._read_state(connection)
        memory = self._read_changes(connection, state, sequence)
        if memory is None:
            with self._translate_invalid_values():
                room, count = _read_rows(connection, state)
                memory = Memory.adopt(room, count, state.last_number + 1)
        if len(memory) != state.row_count:
            raise UnreadableMemoryError(
                self.path, f"damaged: it has {len(memory)} rows in place of {state.row_count}"
            )
        return Snapshot(memory, state, sequence, head, mark)

    def _read_changes(
        self, connection: sqlite3.Connection, state: State, sequence: int
    ) -> Memory | None:
        """Apply the changes since the last snapshot to its memory.

        Returns None if it is too old: a purge has removed the numbers of the rows deleted since. Or
        if it is of another memory, whose file had the name before this process was forked.
        """
        earlier = self._snapshot
        if earlier is None or earlier.state.store != state.store:
            return None
        memory = earlier.memory
        if sequence != earlier.sequence:
            query = "SELECT number FROM dropped WHERE sequence > ?"
            dropped = [number for (number,) in connection.execute(query, (earlier.sequence,))]
            if len(dropped) != sequence - earlier.sequence:
                return None
            rows = memory.find_numbers(np.array(dropped, dtype=np.int64))
            # Rows that were both added and deleted since the snapshot are not in it.
            memory = memory.drop(rows[rows != NO_NEIGHBOR])
        if state.last_number != earlier.state.last_number:
            with self._translate_invalid_values():
                room, count = _read_rows(connection, state, earlier.state.last_number)
                memory = memory.add(room.take(slice(count)))
        return memory

    def _require_all_rows(self, connection: sqlite3.Connection, state: State) -> None:
        """Raise UnreadableMemoryError unless the file has as many rows as its state says."""
        for table in ("rows", "vectors"):
            [count] = query_one(connection, f"SELECT count(*) FROM {table}")
            if count != state.row_count:
                raise UnreadableMemoryError(
                    self.path, f"damaged: it has {count} {table} in place of {state.row_count}"
                )

    def read_state(self) -> State:
        """Read the state alone, without the rows."""
        with self._database.read() as connection:
            return self._read_state(connection)[0]

    @property
    def head(self) -> str:
        """The head of the chain of deletions, in hexadecimal.

        If you publish it elsewhere, `verify` can detect a restored backup.
        """
        with self._database.read() as connection:
            return self._read_state(connection)[2].hex()

    def are_blocked(self, contents: ArrayLike) -> np.ndarray:
        """Return whether each content (N, 16) is blocked: (N,) bool.

        A content is blocked once it was deleted with `block_return`. `add` refuses it then.
        """
        digests = check_contents(contents)
        with self._database.read() as connection:
            state, *_ = self._read_state(connection)
            return _are_blocked(connection, state, digests)

    @property
    def blocked_count(self) -> int:
        """Number of blocked contents."""
        with self._database.read() as connection:
            return int(query_one(connection, "SELECT count(*) FROM blocked")[0])

    def log(self) -> list[Receipt]:
        """Return the receipts of all deletions, in order."""
        with self._database.read() as connection:
            state, *_ = self._read_state(connection)
            return _list_receipts(connection, state.store)

    def find_receipt(self, request: str) -> Receipt | None:
        """Return the receipt of an earlier request, marked as `repeated`; None if there is none."""
        number = read_request_number(request)
        with self._database.read() as connection:
            state, *_ = self._read_state(connection)
            return _find_receipt(connection, state.store, number)

    # Changing

    @contextmanager
    def change(self, wait: float | None = None) -> Iterator["Change"]:
        """Change the memory in one transaction: all changes of the block are made, or none.

        Nothing else changes the memory meanwhile, so the block can decide by what it reads. Once
        this returns, the changes are on disk, and every later snapshot in any process has them.

        Parameters
        ----------
        wait : float, optional
            Seconds to wait for others. By default, those given to `open`.
        """
        with self._database.lock_changes(wait):
            with self._database.change() as connection:
                change = Change(connection, self._snapshot_to_change(connection))
                yield change
            with self._database.read_lock:
                # What a snapshot would read next, since nothing else has changed the memory.
                self._snapshot = change.snapshot
                self._data_version = self._database.read_unchecked_data_version()

    def _snapshot_to_change(self, connection: sqlite3.Connection) -> Snapshot:
        """Return the snapshot that a transaction changes.

        Raises OSError if it is not what the transaction itself reads. A change that was planned on
        it would damage the memory.
        """
        snapshot = self.snapshot()
        current = self._read_state(connection)
        if current != (snapshot.state, snapshot.sequence, snapshot.head, snapshot.mark):
            raise OSError(
                f"{self.path}: others have changed it unseen by this process, because a file beside"
                " it was removed; nothing was changed; open it again"
            )
        return snapshot

    def add(  # noqa: PLR0913  # the parts of a row
        self,
        ids: ArrayLike,
        keys: ArrayLike,
        tokens: ArrayLike,
        labels: ArrayLike | None = None,
        files: Sequence[str | None] | None = None,
        units: Sequence[str | None] | None = None,
        contents: ArrayLike | None = None,
        *,
        allow_blocked: bool = False,
    ) -> None:
        """Add rows. All of them are on disk when this returns.

        Parameters
        ----------
        ids, keys, tokens, labels, files, units, contents
            As for `create`.
        allow_blocked : bool
            Also add contents that were deleted with `block_return`.

        Raises
        ------
        ValueError
            If `create` would refuse the rows, if their widths differ from the memory's, if an id is
            already in the memory, or if a content is blocked.
        """
        new_rows = check_rows(ids, keys, tokens, labels, files, units, contents)
        with self.change() as change:
            change.add(new_rows, allow_blocked=allow_blocked)

    def delete(
        self,
        ids: ArrayLike | Iterable[int],
        *,
        request: str | None = None,
        block_return: bool = False,
    ) -> Receipt:
        """Delete rows: all of them, or none if any id is unknown.

        When this returns, the deletion is on disk, and no later snapshot in any process has these
        rows.

        Parameters
        ----------
        ids : array-like of int
            Ids of the rows.
        request : str, optional
            The request number. A second call with the same number and ids changes nothing, and
            returns the earlier receipt.
        block_return : bool
            Refuse to `add` the contents of these rows from now on.

        Returns
        -------
        Receipt
            The deletion's place in the chain.

        Raises
        ------
        UnknownIdsError
            If any id is unknown. The error lists all unknown ids.
        ValueError
            If an earlier request had the same number, and any of the ids is in the memory.
        """
        unique_ids = np.unique(check_ids(ids))
        request = read_request_number(request)
        with self.change() as change:
            rows = change.snapshot.memory.find_rows(unique_ids)
            is_unknown = rows == NO_NEIGHBOR
            # If the same request was carried out before, unknown ids are not an error.
            if is_unknown.any() and change.find_receipt(request) is None:
                raise UnknownIdsError(unique_ids[is_unknown].tolist())
            return change.delete(rows[~is_unknown], request=request, block_return=block_return)

    def empty_log(self, wait: float | None = None) -> bool:
        """Move the write-ahead log into the file, as every change tries to do.

        Returns False if a reader needs it just now. Call this later then: if someone removed a log
        that is not empty, the rows that were deleted last would be back.
        """
        with self._database.lock_changes(wait):
            return self._database.empty_log()

    def purge(self, wait: float | None = None) -> int:
        """Remove every byte of deleted rows from the memory's files.

        Readers continue. Other changes wait, 9 s for 700,000 rows.

        Parameters
        ----------
        wait : float, optional
            Seconds to wait for other changes, and again for readers. By default, those given to
            `open`.

        Returns
        -------
        int
            The sequence number of the last deletion whose bytes are gone.

        Raises
        ------
        LockedMemoryError
            If a reader needs the write-ahead log for too long. Purge again.
        OSError
            If the disk has less free space than twice the file. Nothing was changed.
        """
        wait_for_readers = self._database.wait if wait is None else wait
        with self._database.lock_changes(wait):
            with self._database.read() as connection:
                state, sequence, *_ = self._read_state(connection)
                self._require_all_rows(connection, state)
            # First, since the vacuum writes the whole file into the log.
            self._database.wait_until_log_is_empty(wait_for_readers)
            self._database.vacuum()
            self._database.wait_until_log_is_empty(wait_for_readers)
            with self._database.change() as connection:
                state, _, head, mark = self._read_state(connection)
                # The row numbers of the deletions since the purge before this one stay, so that
                # other processes can follow the deletions that this purge completes.
                connection.execute("DELETE FROM dropped WHERE sequence <= ?", (state.purged,))
                state = state._replace(purged=sequence, purged_at=max(time.time_ns() // 1000, 1))
                _write_state(connection, state, head, mark)
        return sequence

    @property
    def is_purge_due(self) -> bool:
        """Whether rows were deleted since the last purge."""
        with self._database.read() as connection:
            state, sequence, *_ = self._read_state(connection)
        return state.purged < sequence

    @contextmanager
    def hold_off_changes(self, wait: float | None = None) -> Iterator[None]:
        """Keep all other threads and processes from changing the memory during the block.

        This thread may change it.
        """
        with self._database.lock_changes(wait):
            yield

    def copy(self, path: str | Path) -> None:
        """Copy the memory to a new file, with its name and its chain of deletions.

        Others may change the memory meanwhile. The copy contains no bytes of deleted rows. Raises
        FileExistsError if the file exists.
        """
        with _create_file(Path(path)) as temporary:
            with self._database.read_for_long() as connection:
                state, *_ = self._read_state(connection)
                self._require_all_rows(connection, state)
                connection.execute("COMMIT")  # SQLite copies in a transaction of its own
                try:
                    connection.execute("VACUUM INTO ?", (str(temporary),))
                except sqlite3.OperationalError as error:  # of the copy; the source is only read
                    raise translate_sqlite_error(Path(path), error) from error
            with closing(sqlite3.connect(temporary, isolation_level=None)) as copied:
                copied.execute("PRAGMA journal_mode=WAL")

    def verify(self, published: str | None = None) -> MemoryReport:
        """Recompute the chain and every commitment from the file, and report all faults.

        published: a head that must be in the chain.
        """
        with self._database.read_for_long() as connection:
            state, *_ = self._read_state(connection)
            with self._translate_invalid_values():
                return check_memory(connection, state.store, state.row_count, published)

    def find_chain_faults(self) -> list[str]:
        """Describe changes in the chain of deletions, or in the log of requests that it covers."""
        with self._database.read_for_long() as connection:
            state, *_ = self._read_state(connection)
            with self._translate_invalid_values():
                return list(find_chain_faults(connection, read_links(connection), state.store))

    def close(self) -> None:
        """Close the memory. Later calls, and calls in a forked child, do nothing."""
        self._database.close()
        self._snapshot = None

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Change:
    """A transaction that changes a memory.

    Attributes
    ----------
    snapshot : Snapshot
        The memory, with the changes that were made so far.
    """

    def __init__(self, connection: sqlite3.Connection, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._connection = connection

    def find_receipt(self, request: str | None) -> Receipt | None:
        """Return the receipt of an earlier request, marked as `repeated`; None if there is none."""
        number = read_request_number(request)
        if number is None:
            return None
        return _find_receipt(self._connection, self.snapshot.state.store, number)

    def add(self, rows: NewRows, *, allow_blocked: bool = False) -> None:
        """Add rows.

        Raises ValueError if their widths differ from the memory's, if an id is already in the
        memory, or if a content is blocked and `allow_blocked` is not set.
        """
        state = self.snapshot.state
        memory = self.snapshot.memory
        if (rows.keys.shape[1], rows.tokens.shape[1]) != (state.key_width, state.token_width):
            raise ValueError(
                f"this memory takes keys of {state.key_width} and tokens of {state.token_width}"
                " numbers"
            )
        is_present = memory.find_rows(rows.ids) != NO_NEIGHBOR
        if is_present.any():
            raise ValueError(
                f"these ids are already in the memory: {rows.ids[is_present].tolist()}"
            )
        if not allow_blocked:
            is_blocked = _are_blocked(self._connection, state, rows.contents)
            if is_blocked.any():
                raise ValueError(
                    f"deleted before, and blocked since then: {rows.ids[is_blocked].tolist()}, so"
                    " nothing was added"
                )
        state, columns = _insert_rows(self._connection, state, rows)
        self._write(self.snapshot._replace(state=state, memory=memory.add(columns)))

    def _write(self, snapshot: Snapshot) -> None:
        """Write the state of the memory as it is now."""
        _write_state(self._connection, snapshot.state, snapshot.head, snapshot.mark)
        self.snapshot = snapshot

    def delete(
        self, rows: np.ndarray, *, request: str | None = None, block_return: bool = False
    ) -> Receipt:
        """Delete live rows, given by their positions in `snapshot.memory`.

        Their links are appended to the chain in this order. The parameters are those of
        `MemoryFile.delete`. Raises ValueError if an earlier request had the same number, and there
        are rows to delete.
        """
        request = read_request_number(request)
        earlier_receipt = self.find_receipt(request)
        if earlier_receipt and len(rows):
            outcome = "was carried out" if earlier_receipt.sequences else "found nothing"
            raise ValueError(
                f"request {request!r} {outcome} at {earlier_receipt.when.isoformat()}, and the"
                f" memory still holds {pluralize(len(rows), 'id')} of these; give this deletion"
                " another number"
            )
        if earlier_receipt:
            return earlier_receipt
        state = self.snapshot.state
        memory = self.snapshot.memory
        at = time.time_ns() // 1000  # microseconds
        first = self.snapshot.sequence + 1
        last = self.snapshot.sequence + len(rows)
        hashes: list[bytes] = []  # of contents to block, except those that are blocked already
        if block_return:
            contents = np.unique(memory.columns.contents[rows], axis=0)
            is_blocked = _are_blocked(self._connection, state, contents)
            hashes = _hash_contents(state, contents[~is_blocked])
        mark = compute_next_mark(
            self.snapshot.mark, first=first, last=last, at=at, request=request, blocked=hashes
        )
        numbers = memory.columns.numbers[rows].tolist()
        head = self._remove_rows(numbers, at, mark)
        if numbers or request is not None:  # a request without rows is also recorded
            cursor = self._connection.execute(
                "INSERT INTO deletions VALUES (NULL, ?, ?, ?, ?, ?)",
                (first, last, at, request, mark),
            )
            if hashes:
                blocked = [(digest, cursor.lastrowid) for digest in hashes]
                self._connection.executemany("INSERT INTO blocked VALUES (?, ?)", blocked)
        else:
            mark = self.snapshot.mark
        receipt = Receipt(
            store=state.store.hex(),
            sequences=range(first, last + 1),
            before=self.snapshot.head.hex(),
            after=head.hex(),
            when=to_datetime(at),
            request=request,
        )
        state = state._replace(row_count=state.row_count - len(rows))
        self._write(Snapshot(memory.drop(rows), state, last, head, mark))
        return receipt

    def _remove_rows(self, numbers: list[int], at: int, mark: bytes) -> bytes:
        """Move rows, given by number, from the tables to the chain. Returns its new head."""
        connection = self._connection
        before = self.snapshot.sequence
        connection.executemany(
            "INSERT INTO dropped VALUES (?, ?)", enumerate(numbers, start=before + 1)
        )
        is_dropped = "number IN (SELECT number FROM dropped WHERE sequence > ?)"
        query = f"SELECT number, commitment FROM rows WHERE {is_dropped}"
        commitments = dict(connection.execute(query, (before,)))
        head = self.snapshot.head
        links = []
        for sequence, number in enumerate(numbers, start=before + 1):
            entry = compute_log_entry(commitments[number])
            head = compute_next_head(head, sequence, at, entry, mark)
            links.append((sequence, at, entry, head))
            mark = b""  # only the first link includes it
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", links)
        for table in ("rows", "vectors"):
            cursor = connection.execute(f"DELETE FROM {table} WHERE {is_dropped}", (before,))
            if cursor.rowcount != len(numbers):
                raise sqlite3.DatabaseError(
                    f"{cursor.rowcount} rows of {len(numbers)} are in its table {table}"
                )
        return head

    def replace_classes(self, classes: Classes) -> None:
        """Replace the classes. The labels of the rows stay the same."""
        state = self.snapshot.state._replace(classes=json.dumps(classes))
        self._write(self.snapshot._replace(state=state))


@contextmanager
def _create_file(path: Path) -> Iterator[Path]:
    """Yield the name of a new file, which gets the name `path` if the block succeeds.

    If the block fails, it is removed; if the process is killed, it stays. Raises FileExistsError if
    `path` exists, and the errors of `translate_sqlite_error` for those of SQLite.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        raise FileExistsError(f"{path}: exists; choose another name or folder")
    for suffix in (*SIDE_FILES, FOREIGN_JOURNAL):
        if os.path.lexists(f"{path}{suffix}"):
            raise FileExistsError(
                f"{path}{suffix}: belongs to an earlier memory of this name; choose another name or"
                " folder"
            )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        descriptor = os.open(temporary, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(temporary, path)  # unlike a rename, it fails if the path exists
    except sqlite3.DatabaseError as error:
        raise translate_sqlite_error(path, error) from error
    finally:
        for suffix in ("", *SIDE_FILES, FOREIGN_JOURNAL):
            Path(f"{temporary}{suffix}").unlink(missing_ok=True)
    sync_folder(path.parent)


def _write_state(connection: sqlite3.Connection, state: State, head: bytes, mark: bytes) -> None:
    """Write the state with its seal. head, mark: at the end of the chain."""
    seal = state.compute_seal(head, mark)
    assignments = ", ".join(f"{name} = ?" for name in State._fields)
    cursor = connection.execute(f"UPDATE state SET {assignments}, seal = ?", (*state, seal))
    if cursor.rowcount != 1:
        raise sqlite3.DatabaseError("it does not have exactly one state")


def _insert_rows(
    connection: sqlite3.Connection, state: State, rows: NewRows
) -> tuple[State, Columns]:
    """Insert rows, with the current time, new salts, and commitments.

    Returns the new state, which is not written yet, and the rows as columns of a memory.
    """
    count = len(rows.ids)
    committed = np.zeros(count, COMMITTED)
    committed["salt"] = np.frombuffer(secrets.token_bytes(16 * count), "u1").reshape(-1, 16)
    committed["id"] = rows.ids
    committed["label"] = rows.labels
    committed["content"] = rows.contents
    committed["added"] = time.time_ns() // 1000  # microseconds
    commitments = commit_rows(state.store, committed, rows.keys, rows.tokens, rows.sources)
    numbers = state.last_number + 1 + np.arange(count)
    records = zip(
        numbers.tolist(),
        rows.ids.tolist(),
        rows.labels.tolist(),
        map(bytes, committed["content"]),
        committed["added"].tolist(),
        [unit for _, unit in rows.sources],
        [file for file, _ in rows.sources],
        map(bytes, committed["salt"]),
        commitments,
        strict=True,
    )
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", records)
    vectors = zip(numbers.tolist(), rows.keys, rows.tokens, strict=True)
    connection.executemany("INSERT INTO vectors VALUES (?, ?, ?)", vectors)
    state = state._replace(
        last_number=state.last_number + count,
        row_count=state.row_count + count,
        next_id=max(state.next_id, int(rows.ids.max(initial=-1)) + 1),
    )
    columns = make_columns(
        ids=rows.ids,
        keys=rows.keys,
        tokens=rows.tokens,
        labels=rows.labels,
        units=_to_objects([unit for _, unit in rows.sources]),
        files=_to_objects([file for file, _ in rows.sources]),
        contents=rows.contents,
        added=committed["added"].copy(),
        numbers=numbers,
    )
    return state, columns


def _to_objects(texts: Sequence[str | None]) -> np.ndarray:
    objects = np.empty(len(texts), dtype=object)
    objects[:] = texts
    return objects


def _read_rows(connection: sqlite3.Connection, state: State, after: int = 0) -> tuple[Columns, int]:
    """Read the rows with numbers above `after`, sorted by id.

    Returns columns from `make_room`, and the number of rows in them. Raises various errors if the
    tables hold invalid values.
    """
    [count] = query_one(connection, "SELECT count(*) FROM rows WHERE number > ?", after)
    room = make_room(count, state.key_width, state.token_width)
    known_units: dict[str | None, str | None] = {}  # to store equal strings only once
    stop = 0
    query = "SELECT number, id, label, content, added, unit, file FROM rows WHERE number > ? ORDER BY number"
    for numbers, ids, labels, contents, added, units, files in _fetch_blocks(
        connection, query, after
    ):
        start = stop
        stop += len(numbers)
        _require_texts(units + files)
        room.numbers[start:stop] = numbers
        room.ids[start:stop] = ids
        room.labels[start:stop] = labels
        room.contents[start:stop] = _join_blobs(contents, "u1", DIGEST)
        room.added[start:stop] = added
        room.units[start:stop] = [known_units.setdefault(unit, unit) for unit in units]
        room.files[start:stop] = files
    row_numbers = room.numbers[:count].tolist()
    order = np.argsort(room.ids[:count], kind="stable")
    is_sorted = np.array_equal(order, np.arange(count))
    # Where the rows are now, which were in the order of their numbers.
    places = np.argsort(order).tolist()
    if not is_sorted:
        narrow_columns = (
            room.numbers,
            room.ids,
            room.labels,
            room.contents,
            room.added,
            room.units,
            room.files,
        )
        for column in narrow_columns:
            column[:count] = column[:count][order]
    # Row by row, straight into the room: a list of blobs would be copied twice.
    key_bytes = room.keys.data.cast("B")
    token_bytes = room.tokens.data.cast("B")
    key_size = room.keys[0].nbytes
    token_size = room.tokens[0].nbytes
    query = "SELECT number, key, token FROM vectors WHERE number > ? ORDER BY number"
    different = "rows and vectors have different numbers"
    read_count = 0
    for number, key, token in connection.execute(query, (after,)):
        if read_count == count or number != row_numbers[read_count]:
            raise ValueError(different)
        if len(key) != key_size or len(token) != token_size:
            raise ValueError("a value has another width")
        place = places[read_count]
        key_bytes[place * key_size : (place + 1) * key_size] = key
        token_bytes[place * token_size : (place + 1) * token_size] = token
        read_count += 1
    if read_count != count:
        raise ValueError(different)
    return room, count


def _fetch_blocks(
    connection: sqlite3.Connection, query: str, *values: int
) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield the columns of the records, BLOCK of them at a time."""
    cursor = connection.execute(query, values)
    while records := cursor.fetchmany(BLOCK):
        yield tuple(zip(*records, strict=True))


def _join_blobs(blobs: Sequence[bytes], dtype: str, width: int) -> np.ndarray:
    """Return blobs as an array (N, width). Raises ValueError for a blob of another size."""
    if set(map(len, blobs)) != {width * np.dtype(dtype).itemsize}:
        raise ValueError("a value has another width")
    return np.frombuffer(b"".join(blobs), dtype).reshape(len(blobs), width)


def _require_texts(values: Sequence[object]) -> None:
    """Raise TypeError unless all values are strings or None."""
    if not set(map(type, values)) <= {str, type(None)}:
        raise TypeError("a unit or a source file is not a text")


def _hash_contents(state: State, contents: np.ndarray) -> list[bytes]:
    """Return the HMAC-SHA-256 of each content (N, 16), keyed with the memory's secret."""
    return [hmac.digest(state.secret, content.tobytes(), "sha256") for content in contents]


def _are_blocked(connection: sqlite3.Connection, state: State, contents: np.ndarray) -> np.ndarray:
    """Return whether each content (N, 16) is blocked: (N,) bool."""
    is_blocked = np.zeros(len(contents), dtype=bool)
    [has_blocked] = query_one(connection, "SELECT EXISTS (SELECT * FROM blocked)")
    if not has_blocked:
        return is_blocked
    for index, digest in enumerate(_hash_contents(state, contents)):
        [is_blocked[index]] = query_one(
            connection, "SELECT EXISTS (SELECT * FROM blocked WHERE hash = ?)", digest
        )
    return is_blocked


@overload
def read_request_number(request: str) -> str: ...


@overload
def read_request_number(request: str | None) -> str | None: ...


def read_request_number(request: str | None) -> str | None:
    """Return a request number as the memory stores it. Raises ValueError if it is blank or no text."""
    [text] = check_texts("request", [request], 1)
    if text is None:
        return None
    number = normalize_name(text)
    if not number:
        raise ValueError(f"a request must be a non-empty string, not {text!r}")
    return number


def _find_receipt(connection: sqlite3.Connection, store: bytes, request: str) -> Receipt | None:
    """Return the receipt of an earlier request, marked as `repeated`; None if there is none."""
    receipts = _list_receipts(connection, store, request)
    if not receipts:
        return None
    return replace(receipts[0], repeated=True)


def _list_receipts(
    connection: sqlite3.Connection, store: bytes, request: str | None = None
) -> list[Receipt]:
    """Return the receipts of all deletions in order, or only the one with this request number."""
    # Outer joins, because the first deletion has no link before it.
    query = (
        "SELECT first, last, before.head, after.head, deletions.at, request FROM deletions"
        " LEFT JOIN log AS before ON before.sequence = first - 1"
        " LEFT JOIN log AS after ON after.sequence = last"
    )
    if request is None:
        records = connection.execute(f"{query} ORDER BY number")
    else:
        records = connection.execute(f"{query} WHERE request = ?", (request,))
    first_head = compute_first_head(store)  # also of deletions of no row before the first one
    receipts = []
    for first, last, head_before, head_after, at, recorded_request in records:
        try:
            receipt = Receipt(
                store=store.hex(),
                sequences=range(first, last + 1),
                before=(head_before if first > 1 else first_head).hex(),
                after=(head_after if last > 0 else first_head).hex(),
                when=to_datetime(at),
                request=recorded_request,
            )
        except INVALID as error:
            raise sqlite3.DatabaseError("its log of deletions holds invalid values") from error
        receipts.append(receipt)
    return receipts
