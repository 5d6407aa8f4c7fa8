"""The ledger of a memory, in SQLite: its state, its dead rows, and the chain of deletions."""

import hashlib
import hmac
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from munkey.deploy.errors import OTHER_VERSION
from munkey.deploy.store.errors import UnreadableMemoryError, translate_sqlite_error
from munkey.deploy.store.rows import NO_SOURCE, Source, compute_log_entry
from munkey.memory.chain import (
    ChainLink,
    Receipt,
    compute_first_head,
    compute_next_head,
    compute_next_mark,
    to_bytes,
    to_datetime,
)

MEMORY_FORMAT = 4  # version of the format of the whole folder
MAX_WIDTH = 1 << 20  # maximum width of a key or token
APPLICATION_ID = 0x6D756E6B  # "munk", which distinguishes a memory from other SQLite files
SCHEMA = """
CREATE TABLE state (store BLOB, key_width INTEGER, token_width INTEGER, generation INTEGER, rows INTEGER,
                    erased INTEGER, secret BLOB, seal BLOB);
CREATE TABLE log (sequence INTEGER PRIMARY KEY, at INTEGER, entry BLOB, head BLOB);
CREATE TABLE dead (sequence INTEGER PRIMARY KEY, row INTEGER);
CREATE TABLE deletions (number INTEGER PRIMARY KEY, first INTEGER, last INTEGER, at INTEGER, request TEXT, mark BLOB);
CREATE UNIQUE INDEX by_request ON deletions (request) WHERE request IS NOT NULL;
CREATE TABLE blocked (hash BLOB PRIMARY KEY, deletion INTEGER) WITHOUT ROWID;
CREATE TABLE sources (row INTEGER PRIMARY KEY, file TEXT, unit TEXT);
CREATE INDEX by_file ON sources (file) WHERE file IS NOT NULL;
CREATE INDEX by_unit ON sources (unit) WHERE unit IS NOT NULL;
"""
LAST_HEAD = "IFNULL((SELECT head FROM log ORDER BY sequence DESC LIMIT 1), x'')"
LAST_MARK = "IFNULL((SELECT mark FROM deletions ORDER BY number DESC LIMIT 1), x'')"
# The number of dead rows. Their sequence numbers have no gaps (`count_unchained`), and SQLite finds
# the first and the last without a scan.
DEAD_COUNT = "IFNULL((SELECT max(sequence) FROM dead) - (SELECT min(sequence) FROM dead) + 1, 0)"
INSERT_SOURCE = "INSERT INTO sources VALUES (?, ?, ?)"


class LedgerState(NamedTuple):
    """The state of a memory.

    store: the name of the memory, 16 random bytes. key_width, token_width: width of a key and of a
    token. generation: number of the current generation. rows: number of rows, including dead ones.
    erased: all dead rows up to this sequence number are known to be zero on disk. secret: the
    key for hashes of blocked contents, 32 random bytes.
    """

    store: bytes
    key_width: int
    token_width: int
    generation: int
    rows: int
    erased: int
    secret: bytes

    def is_plausible(self) -> bool:
        """Return whether all values are in range. A damaged file may contain any values."""
        has_widths = 0 < self.key_width <= MAX_WIDTH and 0 < self.token_width <= MAX_WIDTH
        has_counts = self.generation > 0 and self.rows >= 0 and self.erased >= 0
        has_names = len(self.store) == 16 and len(self.secret) == 32
        return has_widths and has_counts and has_names

    def compute_seal(self, head: bytes, mark: bytes) -> bytes:
        """Return SHA-256(head || mark || state), where the state includes the secret.

        Any later change of the head, the mark or the state changes the seal. head: the head of the
        chain of deletions. mark: the mark of the last deletion, or empty before the first.
        """
        numbers_as_bytes = to_bytes(
            self.key_width, self.token_width, self.generation, self.rows, self.erased
        )
        state_as_bytes = self.store + numbers_as_bytes + self.secret
        return hashlib.sha256(head + mark + state_as_bytes).digest()


class Position(NamedTuple):
    """A value that changes whenever rows are added, deleted, or moved.

    Results computed from the rows may be reused only while the position stays the same.
    """

    generation: int
    rows: int  # in the generation, including dead ones
    live: int
    head: bytes  # of the chain of deletions


class Ledger:
    """A connection to `store.db`.

    Raises UnreadableMemoryError if the file is missing or not a ledger, LockedMemoryError if it is
    busy, and OSError if it cannot be accessed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_symlink() or not path.is_file():
            raise UnreadableMemoryError(path, "not found, so this folder is not a memory")
        try:
            uri = f"{path.absolute().as_uri()}?mode=rw"
            self._connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False
            )
        except sqlite3.DatabaseError as error:
            raise translate_sqlite_error(path, error) from error
        try:
            self._check_file()
            self._wal_inode = self._get_wal_inode()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, state: LedgerState, sources: Mapping[int, Source]) -> None:
        """Create a ledger. sources: the source of each row that has one, by row number."""
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        header = f"PRAGMA application_id={APPLICATION_ID};PRAGMA user_version={MEMORY_FORMAT}"
        connection.executescript(f"{header};BEGIN;{SCHEMA}")
        seal = state.compute_seal(compute_first_head(state.store), b"")
        connection.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*state, seal))
        connection.executemany(INSERT_SOURCE, ((row, *source) for row, source in sources.items()))
        connection.execute("COMMIT")
        connection.close()

    def _check_file(self) -> None:
        """Configure the connection, and check the file.

        Raises UnreadableMemoryError unless it is a ledger of this format.
        """
        if self._query_number("PRAGMA application_id") != APPLICATION_ID:
            raise UnreadableMemoryError(self.path, "not the ledger of a memory")
        version = self._query_number("PRAGMA user_version")
        if version != MEMORY_FORMAT:
            why = f"of format {version}, while this munkey reads format {MEMORY_FORMAT}"
            raise UnreadableMemoryError(self.path, why, OTHER_VERSION)
        for setting in ("synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY"):
            self._query(f"PRAGMA {setting}")
        # No other tables, indexes, or triggers are allowed: a trigger could undo deletions.
        statements = {sql for (sql,) in self._query("SELECT sql FROM sqlite_master")}
        if statements != set(SCHEMA.strip(";\n").split(";\n")):
            raise UnreadableMemoryError(self.path, "damaged: its tables are not those of a memory")
        self.read_state()  # raises an error if the state is damaged

    def _get_wal_inode(self) -> int:
        """Return the inode of the write-ahead log, or 0 if there is none."""
        try:
            return Path(f"{self.path}-wal").stat().st_ino
        except FileNotFoundError:
            return 0

    def is_wal_current(self) -> bool:
        """Return whether the write-ahead log next to the file is still the one that was opened."""
        return self._get_wal_inode() == self._wal_inode

    def _require_wal(self) -> None:
        if not self.is_wal_current():
            raise OSError(f"{self.path}-wal: was removed while the memory was open; open it again")

    def _query(self, statement: str, *values: int | str | bytes) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows. Raises the errors of `translate_sqlite_error`."""
        try:
            return self._connection.execute(statement, values).fetchall()
        # Python raises UnicodeDecodeError if SQLite's message quotes damaged text.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise translate_sqlite_error(self.path, error) from error

    def _query_number(self, statement: str) -> int:
        [(number,)] = self._query(statement)
        return int(number)

    def _query_records(
        self, columns: str, types: tuple[Any, ...], clause: str, *values: int | str
    ) -> list[tuple[Any, ...]]:
        """Run `SELECT columns FROM clause`, and check the type of each column.

        types: the type of each column. Raises UnreadableMemoryError for a value of another type,
        because SQLite does not enforce types.
        """
        records = self._query(f"SELECT {columns} FROM {clause}", *values)
        for column, expected_type in enumerate(types):
            value_types = {type(record[column]) for record in records}
            if not all(issubclass(value_type, expected_type) for value_type in value_types):
                table = clause.partition(" ")[0]
                raise UnreadableMemoryError(
                    self.path, f"damaged: its table {table} holds invalid values"
                )
        return records

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit the changes of the block to the disk, or roll them back if it fails.

        Raises OSError if the file cannot be written.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.DatabaseError):  # the connection is not used again
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.DatabaseError):
                raise OSError(f"{self.path}: cannot be written ({error})") from error
            raise
        self._require_wal()  # without the log's name, no process would find the commits

    def read_state(self) -> LedgerState:
        """Read the state.

        Raises UnreadableMemoryError if the state, or the end of the chain, was changed.
        """
        return self._read_sealed_state()[0]

    def read_position(self) -> Position:
        """Read the position of the memory, which changes with its rows. Raises as `read_state`."""
        state, head, dead_count = self._read_sealed_state()
        return Position(
            generation=state.generation,
            rows=state.rows,
            live=state.rows - dead_count,
            head=head,
        )

    def _read_sealed_state(self) -> tuple[LedgerState, bytes, int]:
        """Read the state, the head of the chain, and the number of dead rows in one query."""
        columns = f"{', '.join(LedgerState._fields)}, seal, {LAST_HEAD}, {LAST_MARK}, {DEAD_COUNT}"
        types = (bytes, int, int, int, int, int, bytes, bytes, bytes, bytes, int)
        records = self._query_records(columns, types, "state")
        if len(records) != 1:
            raise UnreadableMemoryError(self.path, "damaged: it does not have exactly one state")
        *fields, seal, last_head, mark, dead_count = records[0]
        state = LedgerState(*fields)
        if not state.is_plausible():
            raise UnreadableMemoryError(self.path, "damaged: its state has impossible values")
        head = last_head or compute_first_head(state.store)
        if seal != state.compute_seal(head, mark):
            raise UnreadableMemoryError(
                self.path,
                "damaged: its state, or the last link of its chain of deletions, was changed after"
                " it was written",
            )
        return state, head, dead_count

    def _write_state(self, state: LedgerState) -> None:
        """Write the state with its seal.

        This must be the last statement of a transaction, because the seal covers the head of the
        chain.
        """
        [(head, mark)] = self._query(f"SELECT {LAST_HEAD}, {LAST_MARK}")
        seal = state.compute_seal(head or compute_first_head(state.store), mark)
        self._connection.execute(
            "UPDATE state SET generation = ?, rows = ?, erased = ?, seal = ?",
            (state.generation, state.rows, state.erased, seal),
        )

    def read_data_version(self) -> int:
        """Return a number that changes whenever another connection commits a change.

        Raises OSError if the write-ahead log was removed: other connections then write to a new
        one, which this connection does not see.
        """
        self._require_wal()
        return self._query_number("PRAGMA data_version")

    def list_dead_rows(self, after: int = 0, until: int = 1 << 62) -> np.ndarray:
        """Return the dead rows (D,) with sequence numbers in (after, until], in deletion order.

        By default, all dead rows: 2^62 is above any sequence number.
        """
        clause = "dead WHERE sequence > ? AND sequence <= ? ORDER BY sequence"
        records = self._query_records("row", (int,), clause, after, until)
        return np.array([row for (row,) in records], dtype=np.int64)

    def _query_links(self, clause: str) -> list[ChainLink]:
        """Run `SELECT ... FROM log clause`. The links have no marks: those are in `deletions`."""
        columns = ", ".join(ChainLink._fields[:-1])
        records = self._query_records(columns, (int, int, bytes, bytes), f"log {clause}")
        return [ChainLink(*record) for record in records]

    def list_links(self) -> list[ChainLink]:
        """List the links of the chain, in order."""
        # Read links before marks: if a deletion happens in between, there are extra marks, but
        # every link has its mark.
        links = self._query_links("ORDER BY sequence")
        marks = dict(
            self._query_records("first, mark", (int, bytes), "deletions WHERE first <= last")
        )
        return [link._replace(mark=marks.get(link.sequence, b"")) for link in links]

    def list_receipts(self, request: str | None = None) -> list[Receipt]:
        """Return the receipts of all deletions in order, or only the one with this request number.

        The list is empty if no deletion has the number.
        """
        columns = "first, last, before.head, after.head, deletions.at, request"
        types = (int, int, bytes | None, bytes | None, int, str | None)
        # Outer joins, because the first deletion has no link before it.
        joined_tables = (
            "deletions LEFT JOIN log AS before ON before.sequence = first - 1"
            " LEFT JOIN log AS after ON after.sequence = last"
        )
        if request is None:
            clause = f"{joined_tables} ORDER BY number"
            records = self._query_records(columns, types, clause)
        else:
            clause = f"{joined_tables} WHERE request = ? ORDER BY number"
            records = self._query_records(columns, types, clause, request)
        store = self.read_state().store
        receipts = []
        first_head = compute_first_head(store)
        for first, last, head_before, head_after, at, recorded_request in records:
            receipt = Receipt(
                store=store.hex(),
                sequences=range(first, last + 1),
                before=(head_before or first_head).hex(),
                after=(head_after or first_head).hex(),
                when=to_datetime(at),
                request=recorded_request,
            )
            receipts.append(receipt)
        return receipts

    def hash_contents(self, contents: np.ndarray) -> list[bytes]:
        """Return the HMAC-SHA-256 of each content (N, 16), keyed with the memory's secret."""
        secret = self.read_state().secret
        return [hmac.digest(secret, content.tobytes(), "sha256") for content in contents]

    def are_blocked(self, contents: np.ndarray) -> np.ndarray:
        """Return whether each content (N, 16) is blocked: (N,) bool."""
        is_blocked = np.zeros(len(contents), dtype=bool)
        if not self._query_number("SELECT EXISTS (SELECT * FROM blocked)"):
            return is_blocked
        for index, digest in enumerate(self.hash_contents(contents)):
            records = self._query("SELECT 1 FROM blocked WHERE hash = ?", digest)
            is_blocked[index] = len(records) > 0
        return is_blocked

    def count_blocked(self) -> int:
        return self._query_number("SELECT COUNT(*) FROM blocked")

    def get_last_link(self) -> ChainLink:
        """Return the last link, or the initial link (sequence 0) if nothing was deleted yet."""
        links = self._query_links("ORDER BY sequence DESC LIMIT 1")
        if not links:
            first_head = compute_first_head(self.read_state().store)
            return ChainLink(sequence=0, at=0, entry=b"", head=first_head)
        return links[0]

    def read_sources(self, rows: np.ndarray) -> list[Source]:
        """Read the source of each row (N,); NO_SOURCE for a row without one, or a dead row."""
        row_numbers = rows.tolist()
        records = self._query_records(
            "row, file, unit",
            (int, str | None, str | None),
            "sources WHERE row IN (SELECT value FROM json_each(?))",
            json.dumps(row_numbers),
        )
        sources = {row: (file, unit) for row, file, unit in records}
        return [sources.get(row, NO_SOURCE) for row in row_numbers]

    def find_rows(self, column: Literal["file", "unit"], name: str) -> list[int]:
        """Return the rows of a source file or a unit, in ascending order."""
        clause = f"sources WHERE {column} = ? ORDER BY row"
        return [row for (row,) in self._query_records("row", (int,), clause, name)]

    def count_stray_sources(self) -> int:
        """Count sources that belong to no live row: 0 unless the ledger was tampered with."""
        is_live = (
            "row BETWEEN 0 AND (SELECT rows FROM state) - 1 AND row NOT IN (SELECT row FROM dead)"
        )
        return self._query_number(f"SELECT count(*) FROM sources WHERE NOT ({is_live})")

    def count_unchained(self) -> int:
        """Count dead rows that do not belong to the last links of the chain.

        The count is 0 unless the ledger was tampered with: a compaction removes all dead rows but
        no links, so the D dead rows that are listed belong to the last D links.
        """
        last = "(SELECT count(*) FROM log)"
        first = f"{last} - (SELECT count(*) FROM dead) + 1"
        return self._query_number(
            f"SELECT count(*) FROM dead WHERE sequence NOT BETWEEN {first} AND {last}"
        )

    def find_false_deletion(self) -> int | None:
        """Return the number of the first deletion that was changed or contradicts its links.

        Returns None if all deletions are consistent.
        """
        columns = "number, first, last, at, request, mark"
        types = (int, int, int, int, str | None, bytes)
        hashes: dict[int, list[bytes]] = {}  # of blocked contents, by deletion
        self._query("BEGIN")  # one transaction, so that all three tables are from the same moment
        try:
            links = self._query_links("ORDER BY sequence")
            deletions = self._query_records(columns, types, "deletions ORDER BY number")
            for number, digest in self._query_records("deletion, hash", (int, bytes), "blocked"):
                hashes.setdefault(number, []).append(digest)
        finally:
            self._query("COMMIT")
        mark = b""
        last_so_far = 0  # sequence number of the last link of the deletions so far
        for expected_number, deletion in enumerate(deletions, start=1):
            number, first, last, at, request, written_mark = deletion
            mark = compute_next_mark(mark, first, last, at, request, hashes.pop(number, ()))
            if number != expected_number or written_mark != mark:
                return expected_number
            # A deletion without rows has last = first - 1.
            if first != last_so_far + 1 or last < last_so_far:
                return expected_number
            if any(link.at != at for link in links[last_so_far:last]):
                return expected_number
            last_so_far = last
        # Links or blocked contents are left over, so a deletion is missing at the end.
        if last_so_far != len(links) or hashes:
            return len(deletions) + 1
        return None

    def check_integrity(self) -> str:
        """Return `ok`, or the faults that SQLite finds in its file and indexes."""
        return "; ".join(str(fault) for (fault,) in self._query("PRAGMA integrity_check"))

    def delete(
        self, rows: np.ndarray, records: np.ndarray, erased: int, request: str | None, block: bool
    ) -> Receipt:
        """Record rows (D,) as dead, and remove their sources.

        Once this is committed, the deletion cannot be undone. records: the record of each row (D,).
        erased: all dead rows up to this sequence number are zero on disk. request: the request
        number. block: refuse the contents of these rows from now on.
        """
        last_link = self.get_last_link()
        at = time.time_ns() // 1000  # microseconds
        state = self.read_state()
        [(number, last_mark)] = self._query(
            f"SELECT (SELECT IFNULL(max(number), 0) + 1 FROM deletions), {LAST_MARK}"
        )
        first = last_link.sequence + 1
        last = last_link.sequence + len(rows)
        sequences = range(first, last + 1)
        hashes: list[bytes] = []  # of contents to block, except those that are blocked already
        if block:
            contents = np.unique(records["content"], axis=0)
            hashes = self.hash_contents(contents[~self.are_blocked(contents)])
        mark = compute_next_mark(
            last_mark, first=first, last=last, at=at, request=request, blocked=hashes
        )
        links = _make_links(last_link, records["commitment"], at, mark)
        head = links[-1].head if links else last_link.head
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO log VALUES (?, ?, ?, ?)",
                ((link.sequence, link.at, link.entry, link.head) for link in links),
            )
            connection.executemany(
                "INSERT INTO dead VALUES (?, ?)", zip(sequences, rows.tolist(), strict=True)
            )
            connection.execute(
                "DELETE FROM sources WHERE row IN (SELECT row FROM dead WHERE sequence > ?)",
                (last_link.sequence,),
            )
            if links or request is not None:  # a request without rows is also recorded
                connection.execute(
                    "INSERT INTO deletions VALUES (?, ?, ?, ?, ?, ?)",
                    (number, first, last, at, request, mark),
                )
            connection.executemany(
                "INSERT INTO blocked VALUES (?, ?)", ((digest, number) for digest in hashes)
            )
            self._write_state(state._replace(erased=erased))
        return Receipt(
            store=state.store.hex(),
            sequences=sequences,
            before=last_link.head.hex(),
            after=head.hex(),
            when=to_datetime(at),
            request=request,
        )

    def record_zeros(
        self, erased: int, added: int = 0, sources: Mapping[int, Source] | None = None
    ) -> None:
        """Record that all dead rows up to the sequence number `erased` are zero on disk.

        Also record new rows. added: their number. sources: the source of each new row that has one,
        by row number.
        """
        if sources is None:
            sources = {}
        state = self.read_state()
        with self._transaction() as connection:
            connection.executemany(
                INSERT_SOURCE, ((row, *source) for row, source in sources.items())
            )
            self._write_state(state._replace(rows=state.rows + added, erased=erased))

    def switch_generation(self, generation: int, live_rows: np.ndarray) -> None:
        """Record that the live rows were moved to another generation, to rows 0, 1, and so on.

        live_rows: their old row numbers, in ascending order.
        """
        state = self.read_state()
        last_sequence = self.get_last_link().sequence
        records = self._query_records("row", (int,), "sources ORDER BY row")
        old_rows = np.array([row for (row,) in records], dtype=np.int64)
        new_rows = np.searchsorted(live_rows, old_rows)
        # In ascending order, so that no row takes the number of a row that has not been moved yet.
        moves = zip(new_rows.tolist(), old_rows.tolist(), strict=True)
        with self._transaction() as connection:
            connection.execute("DELETE FROM dead")
            connection.executemany("UPDATE sources SET row = ? WHERE row = ?", moves)
            self._write_state(
                state._replace(generation=generation, rows=len(live_rows), erased=last_sequence)
            )

    def vacuum(self) -> None:
        """Rewrite the file, because its pages may hold deleted data despite `secure_delete`."""
        self._query("VACUUM")

    def empty_wal(self) -> bool:
        """Checkpoint the write-ahead log into the database file and truncate it.

        Returns False if a reader blocks the checkpoint.
        """
        [(busy, *_)] = self._query("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    def copy(self, path: Path) -> None:
        """Write a copy of the ledger to a new file, without the unused parts of its pages."""
        self._query("VACUUM INTO ?", str(path))
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()

    def close(self) -> None:
        self._connection.close()


def _make_links(
    last_link: ChainLink, commitments: np.ndarray, at: int, mark: bytes
) -> list[ChainLink]:
    """Make the links of a deletion, one for each of its rows, in order.

    last_link: the link before them. commitments: (D, 32) uint8. at: the time of the deletion, as in
    the log. mark: the mark of the deletion, which only the first link includes.
    """
    links = []
    head = last_link.head
    for sequence, commitment in enumerate(commitments, start=last_link.sequence + 1):
        log_entry = compute_log_entry(commitment.tobytes())
        head = compute_next_head(head, sequence, at, log_entry, mark)
        links.append(ChainLink(sequence, at, log_entry, head, mark))
        mark = b""
    return links
