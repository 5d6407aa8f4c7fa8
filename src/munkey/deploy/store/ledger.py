"""The truth about a memory, in SQLite: which rows there are, which are dead, and the chain of deletions."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from munkey.deploy.store.chain import ChainLink, Receipt, first_head, moment, next_head, packed
from munkey.deploy.store.errors import UnreadableMemoryError, failure
from munkey.deploy.store.rows import entry

MEMORY_FORMAT = 3  # the version of the format of the whole folder
WIDEST = 1 << 20  # numbers in a key or token
APPLICATION = 0x6D756E6B  # "munk", so that no other SQLite file passes for a memory
SCHEMA = """
CREATE TABLE state (store BLOB, key_width INTEGER, token_width INTEGER, generation INTEGER, rows INTEGER,
                    erased INTEGER, seal BLOB);
CREATE TABLE log (sequence INTEGER PRIMARY KEY, at INTEGER, entry BLOB, head BLOB);
CREATE TABLE dead (sequence INTEGER PRIMARY KEY, row INTEGER);
CREATE TABLE sources (row INTEGER PRIMARY KEY, file TEXT);
CREATE INDEX by_file ON sources (file);
"""
INSERT_SOURCE = "INSERT INTO sources VALUES (?, ?)"


class LedgerState(NamedTuple):
    """store: 16 random bytes that name this memory; key_width, token_width: numbers in a row.

    generation: which folder holds the rows; rows: how many, dead ones among them; erased: up to which sequence number
    all dead rows are known to be zero on the disk.
    """

    store: bytes
    key_width: int
    token_width: int
    generation: int
    rows: int
    erased: int

    def plausible(self) -> bool:
        numbers = self[1:]
        return min(numbers) >= 0 and min(self[1:4]) > 0 and max(self[1:3]) <= WIDEST and len(self.store) == 16

    def seal(self, head: bytes) -> bytes:
        """SHA-256(head of the chain || state, its numbers as 8 bytes, little-endian), so that a change is noticed."""
        return hashlib.sha256(b"".join((head, self.store, packed(*self[1:])))).digest()


class Ledger:
    """A connection to `store.db`. Raises UnreadableMemoryError if it is no ledger, LockedMemoryError if it is busy."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_symlink() or not path.is_file():
            raise UnreadableMemoryError(path, "not found, so this folder is not a memory")
        try:
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
            )
        except sqlite3.DatabaseError as error:
            raise failure(path, error) from error
        try:
            self._check()
            self._wal = self._wal_file()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, state: LedgerState, files: Mapping[int, str]) -> None:
        """A new one. files: the source files of some rows, by number."""
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(
            f"PRAGMA application_id={APPLICATION};PRAGMA user_version={MEMORY_FORMAT};BEGIN;{SCHEMA}"
        )
        seal = state.seal(first_head(state.store))
        connection.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?, ?, ?)", (*state, seal))
        connection.executemany(INSERT_SOURCE, files.items())
        connection.execute("COMMIT")
        connection.close()

    def _check(self) -> None:
        if self._number("PRAGMA application_id") != APPLICATION:
            raise UnreadableMemoryError(self.path, "not the ledger of a memory")
        if (version := self._number("PRAGMA user_version")) != MEMORY_FORMAT:
            raise UnreadableMemoryError(
                self.path, f"of format {version}, while this munkey reads format {MEMORY_FORMAT}"
            )
        for setting in ("synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY"):
            self._ask(f"PRAGMA {setting}")
        made = {sql for (sql,) in self._ask("SELECT sql FROM sqlite_master")}  # a trigger could undo deletions
        if made != set(SCHEMA.strip(";\n").split(";\n")):
            raise UnreadableMemoryError(self.path, "damaged: its tables are not those of a memory")
        self.state()

    def _wal_file(self) -> int:
        """The inode of the write-ahead log; 0 where it has none."""
        try:
            return Path(f"{self.path}-wal").stat().st_ino
        except FileNotFoundError:
            return 0

    def _ask(self, question: str, *values: int | str) -> list[tuple[Any, ...]]:
        """The rows of an answer. Raises what `failure` says."""
        try:
            return self._connection.execute(question, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise failure(self.path, error) from error

    def _number(self, question: str) -> int:
        return int(self._ask(question)[0][0])

    def _records(self, columns: str, types: tuple[type, ...], rest: str, *values: int | str) -> list[tuple[Any, ...]]:
        """`SELECT columns FROM rest`. Raises UnreadableMemoryError where a value is not of its column's type."""
        answer = self._ask(f"SELECT {columns} FROM {rest}", *values)
        if not all(isinstance(value, kind) for row in answer for value, kind in zip(row, types, strict=True)):
            table = rest.partition(" ")[0]
            raise UnreadableMemoryError(self.path, f"damaged: its table {table} holds what it must not")
        return answer

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on the disk when the block is left. Raises OSError where it cannot be written."""
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
        if self._wal_file() != self._wal:  # what was committed is in a file that nobody will find
            raise OSError(f"{self.path}-wal: was removed while the memory was open; open it again")

    def state(self) -> LedgerState:
        """The state. Raises UnreadableMemoryError where it, or the end of the chain, is not what was written."""
        head = "IFNULL((SELECT head FROM log ORDER BY sequence DESC LIMIT 1), x'')"  # of the same moment as the state
        columns = f"{', '.join(LedgerState._fields)}, seal, {head}"
        answer = self._records(columns, (bytes, *[int] * 5, bytes, bytes), "state")
        if len(answer) != 1 or not LedgerState(*answer[0][:-2]).plausible():
            raise UnreadableMemoryError(self.path, "damaged: its state makes no sense")
        state, (seal, last) = LedgerState(*answer[0][:-2]), answer[0][-2:]
        if seal != state.seal(last or first_head(state.store)):
            why = "damaged: its state, or the last link of its chain of deletions, was changed after it was written"
            raise UnreadableMemoryError(self.path, why)
        return state

    def _keep(self, state: LedgerState, head: bytes) -> None:
        """Within a transaction: write the state as it is now, sealed. head: of the chain."""
        changed = (state.generation, state.rows, state.erased, state.seal(head))
        self._connection.execute("UPDATE state SET generation = ?, rows = ?, erased = ?, seal = ?", changed)

    def changes(self) -> int:
        """A number that differs after any other connection has changed something."""
        return self._number("PRAGMA data_version")

    def dead(self, after: int = 0) -> np.ndarray:
        """Rows that are dead, (D,) int64, of sequence numbers above `after`, in order of deletion."""
        answer = self._records("row", (int,), "dead WHERE sequence > ? ORDER BY sequence", after)
        return np.array([row for (row,) in answer], dtype=np.int64)

    def _links(self, rest: str, *values: int) -> list[ChainLink]:
        columns, types = ", ".join(ChainLink._fields), (int, int, bytes, bytes)
        return [ChainLink(*row) for row in self._records(columns, types, f"log {rest}", *values)]

    def links(self) -> list[ChainLink]:
        return self._links("ORDER BY sequence")

    def last(self) -> ChainLink:
        """The last link of the chain; before any deletion, one of sequence number 0 with the first head."""
        links = self._links("ORDER BY sequence DESC LIMIT 1")
        return links[0] if links else ChainLink(0, 0, b"", first_head(self.state().store))

    def head_at(self, sequence: int) -> bytes | None:
        """The head of the chain after the deletion of that number; None where there was none."""
        if sequence == 0:
            return first_head(self.state().store)
        links = self._links("WHERE sequence = ?", sequence)
        return links[0].head if links else None

    def files_of(self, rows: np.ndarray) -> list[str | None]:
        """The source file of each row (N,); None where none is known."""
        asked, rest = rows.tolist(), "sources WHERE row IN (SELECT value FROM json_each(?))"
        found = dict(self._records("row, file", (int, str), rest, json.dumps(asked)))
        return [found.get(row) for row in asked]

    def rows_from(self, file: str) -> list[int]:
        """The rows that came from a file, ascending."""
        return [row for (row,) in self._records("row", (int,), "sources WHERE file = ? ORDER BY row", file)]

    def stray_files(self) -> int:
        """How many source files belong to no live row: none, unless the ledger was tampered with."""
        live = "row BETWEEN 0 AND (SELECT rows FROM state) - 1 AND row NOT IN (SELECT row FROM dead)"
        return self._number(f"SELECT count(*) FROM sources WHERE NOT ({live})")

    def unchained(self) -> int:
        """How many dead rows are not those of the last links of the chain: none, unless it was tampered with.

        A compaction removes dead rows, and never links.
        """
        links, dead = "(SELECT count(*) FROM log)", "(SELECT count(*) FROM dead)"
        return self._number(f"SELECT count(*) FROM dead WHERE sequence NOT BETWEEN {links} - {dead} + 1 AND {links}")

    def integrity(self) -> str:
        """`ok`, or what SQLite finds wrong with its file."""
        return "; ".join(str(line) for (line,) in self._ask("PRAGMA quick_check"))

    def delete(self, rows: np.ndarray, commitments: np.ndarray, erased: int) -> Receipt:
        """Record rows (D,) with commitments (D, 32) as dead, and drop their source files: the point of no return."""
        last, at, state = self.last(), time.time_ns() // 1000, self.state()
        links, head = [], last.head
        for sequence, commitment in enumerate(commitments, start=last.sequence + 1):
            log_entry = entry(commitment.tobytes())
            head = next_head(head, sequence, at, log_entry)
            links.append((sequence, at, log_entry, head))
        sequences = range(last.sequence + 1, last.sequence + 1 + len(links))
        with self._transaction() as connection:
            connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", links)
            connection.executemany("INSERT INTO dead VALUES (?, ?)", zip(sequences, rows.tolist(), strict=True))
            gone = "SELECT row FROM dead WHERE sequence > ?"
            connection.execute(f"DELETE FROM sources WHERE row IN ({gone})", (last.sequence,))
            self._keep(state._replace(erased=erased), head)
        return Receipt(state.store.hex(), sequences, last.head.hex(), head.hex(), moment(at))

    def settled(self, erased: int) -> None:
        """All dead rows up to the sequence number `erased` are zero on the disk."""
        state, head = self.state(), self.last().head
        with self._transaction():
            self._keep(state._replace(erased=erased), head)

    def grow(self, rows: int, erased: int, files: Mapping[int, str]) -> None:
        """There are `rows` rows now. erased: as for `settled`; files: the source files of new rows, by number."""
        state, head = self.state(), self.last().head
        with self._transaction() as connection:
            connection.executemany(INSERT_SOURCE, files.items())
            self._keep(state._replace(rows=rows, erased=erased), head)

    def switch(self, generation: int, kept: np.ndarray) -> None:
        """The rows `kept`, ascending, lie in another generation now, numbered from 0, none of them dead."""
        state, last, named = self.state(), self.last(), self._records("row", (int,), "sources ORDER BY row")
        old = np.array([row for (row,) in named], dtype=np.int64)
        moved = zip(np.searchsorted(kept, old).tolist(), old.tolist(), strict=True)
        with self._transaction() as connection:
            connection.execute("DELETE FROM dead")
            connection.executemany("UPDATE sources SET row = ? WHERE row = ?", moved)
            self._keep(state._replace(generation=generation, rows=len(kept), erased=last.sequence), last.head)

    def rewrite(self) -> None:
        """Write the file anew: despite `secure_delete`, unused parts of its pages can hold what was deleted."""
        self._ask("VACUUM")

    def empty_wal(self) -> bool:
        """Move everything out of the write-ahead log and cut it to nothing; whether that was possible."""
        ((busy, *_),) = self._ask("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    def close(self) -> None:
        self._connection.close()
