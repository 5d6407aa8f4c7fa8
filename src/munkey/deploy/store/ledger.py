"""The truth about a memory, in SQLite: which rows there are, which are dead, and the chain of deletions."""

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
from munkey.deploy.store.chain import (
    ChainLink,
    Receipt,
    first_head,
    moment,
    next_head,
    next_mark,
    packed,
)
from munkey.deploy.store.errors import UnreadableMemoryError, failure
from munkey.deploy.store.rows import NOWHERE, Source, entry

MEMORY_FORMAT = 4  # the version of the format of the whole folder
WIDEST = 1 << 20  # numbers in a key or token
APPLICATION = 0x6D756E6B  # "munk", so that no other SQLite file passes for a memory
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
# How many rows are dead: their sequence numbers have no gap (`unchained`), and its ends are found
# without a scan.
DEAD = "IFNULL((SELECT max(sequence) FROM dead) - (SELECT min(sequence) FROM dead) + 1, 0)"
INSERT_SOURCE = "INSERT INTO sources VALUES (?, ?, ?)"


class LedgerState(NamedTuple):
    """store: 16 random bytes that name this memory; key_width, token_width: numbers in a row.

    generation: which folder holds the rows; rows: how many, dead ones among them; erased: up to which sequence number
    all dead rows are known to be zero on the disk; secret: 32 random bytes, the key of the hashes of blocked contents.
    """

    store: bytes
    key_width: int
    token_width: int
    generation: int
    rows: int
    erased: int
    secret: bytes

    def plausible(self) -> bool:
        names = len(self.store), len(self.secret)
        return (
            min(self[1:6]) >= 0
            and min(self[1:4]) > 0
            and max(self[1:3]) <= WIDEST
            and names == (16, 32)
        )

    def seal(self, head: bytes, mark: bytes) -> bytes:
        """SHA-256(head of the chain || last mark || state), so that a change is noticed."""
        return hashlib.sha256(
            b"".join((head, mark, self.store, packed(*self[1:6]), self.secret))
        ).digest()


class Position(NamedTuple):
    """Which rows a memory holds, as one value: every addition, deletion and compaction makes
    another one of it.

    Between two moments of the same position no row came, left or moved. Whatever was computed from
    the rows may be used again at that position, and at no other.
    """

    generation: int
    rows: int  # of the generation, dead ones among them
    live: int
    head: bytes  # of the chain of deletions


class Ledger:
    """A connection to `store.db`. Raises UnreadableMemoryError if it is no ledger, LockedMemoryError if it is busy."""

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
            raise failure(path, error) from error
        try:
            self._check()
            self._wal = self._wal_file()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, state: LedgerState, sources: Mapping[int, Source]) -> None:
        """A new one. sources: of some rows, by number."""
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        named = f"PRAGMA application_id={APPLICATION};PRAGMA user_version={MEMORY_FORMAT}"
        connection.executescript(f"{named};BEGIN;{SCHEMA}")
        seal = state.seal(first_head(state.store), b"")
        connection.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*state, seal))
        connection.executemany(INSERT_SOURCE, ((row, *source) for row, source in sources.items()))
        connection.execute("COMMIT")
        connection.close()

    def _check(self) -> None:
        if self._number("PRAGMA application_id") != APPLICATION:
            raise UnreadableMemoryError(self.path, "not the ledger of a memory")
        if (version := self._number("PRAGMA user_version")) != MEMORY_FORMAT:
            why = f"of format {version}, while this munkey reads format {MEMORY_FORMAT}"
            raise UnreadableMemoryError(self.path, why, OTHER_VERSION)
        for setting in ("synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY"):
            self._ask(f"PRAGMA {setting}")
        # a trigger could undo deletions
        made = {sql for (sql,) in self._ask("SELECT sql FROM sqlite_master")}
        if made != set(SCHEMA.strip(";\n").split(";\n")):
            raise UnreadableMemoryError(self.path, "damaged: its tables are not those of a memory")
        self.state()

    def _wal_file(self) -> int:
        """The inode of the write-ahead log; 0 where it has none."""
        try:
            return Path(f"{self.path}-wal").stat().st_ino
        except FileNotFoundError:
            return 0

    def in_place(self) -> bool:
        """Whether the write-ahead log that is open is the one that lies beside the file."""
        return self._wal_file() == self._wal

    def _require_log(self) -> None:
        if not self.in_place():
            raise OSError(f"{self.path}-wal: was removed while the memory was open; open it again")

    def _ask(self, question: str, *values: int | str | bytes) -> list[tuple[Any, ...]]:
        """The rows of an answer. Raises what `failure` says."""
        try:
            return self._connection.execute(question, values).fetchall()
        # the second where a message quotes damaged text
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise failure(self.path, error) from error

    def _number(self, question: str) -> int:
        return int(self._ask(question)[0][0])

    def _records(
        self, columns: str, types: tuple[Any, ...], rest: str, *values: int | str
    ) -> list[tuple[Any, ...]]:
        """`SELECT columns FROM rest`. Raises UnreadableMemoryError where a value is not of its column's type."""
        answer = self._ask(f"SELECT {columns} FROM {rest}", *values)
        if any(
            not issubclass(own, kind)
            for at, kind in enumerate(types)
            for own in {type(row[at]) for row in answer}
        ):
            table = rest.partition(" ")[0]
            raise UnreadableMemoryError(
                self.path, f"damaged: its table {table} holds what it must not"
            )
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
        self._require_log()  # else what was committed is in a file that nobody will find

    def state(self) -> LedgerState:
        """The state. Raises UnreadableMemoryError where it, or the end of the chain, is not what was written."""
        return self._sealed()[0]

    def position(self) -> Position:
        """Which rows there are. Raises as `state`."""
        state, head, dead = self._sealed()
        return Position(state.generation, state.rows, state.rows - dead, head)

    def _sealed(self) -> tuple[LedgerState, bytes, int]:
        """The state, the head of the chain, and how many rows are dead: all of the same moment."""
        columns = f"{', '.join(LedgerState._fields)}, seal, {LAST_HEAD}, {LAST_MARK}, {DEAD}"
        answer = self._records(columns, (bytes, *[int] * 5, *[bytes] * 4, int), "state")
        if len(answer) != 1 or not LedgerState(*answer[0][:-4]).plausible():
            raise UnreadableMemoryError(self.path, "damaged: its state makes no sense")
        state = LedgerState(*answer[0][:-4])
        seal, last, mark, dead = answer[0][-4:]
        head = last or first_head(state.store)
        if seal != state.seal(head, mark):
            why = "damaged: its state, or the last link of its chain of deletions, was changed after it was written"
            raise UnreadableMemoryError(self.path, why)
        return state, head, dead

    def _keep(self, state: LedgerState) -> None:
        """Within a transaction, after all else: write the state as it is now, sealed."""
        ((head, mark),) = self._ask(f"SELECT {LAST_HEAD}, {LAST_MARK}")
        changed = (
            state.generation,
            state.rows,
            state.erased,
            state.seal(head or first_head(state.store), mark),
        )
        self._connection.execute(
            "UPDATE state SET generation = ?, rows = ?, erased = ?, seal = ?", changed
        )

    def changes(self) -> int:
        """A number that differs after any other connection has changed something.

        Raises OSError where the write-ahead log was removed: what others write is in a new one, and
        not seen here.
        """
        self._require_log()
        return self._number("PRAGMA data_version")

    def dead(self, after: int = 0, until: int = 1 << 62) -> np.ndarray:
        """Rows that are dead, (D,) int64, of sequence numbers above `after` up to `until`, in order of deletion."""
        rest = "dead WHERE sequence > ? AND sequence <= ? ORDER BY sequence"
        answer = self._records("row", (int,), rest, after, until)
        return np.array([row for (row,) in answer], dtype=np.int64)

    def _links(self, rest: str, *values: int) -> list[ChainLink]:
        columns, types = ", ".join(ChainLink._fields[:-1]), (int, int, bytes, bytes)
        return [ChainLink(*row) for row in self._records(columns, types, f"log {rest}", *values)]

    def links(self) -> list[ChainLink]:
        # before the marks, in case of a deletion meanwhile
        links = self._links("ORDER BY sequence")
        marks = dict(self._records("first, mark", (int, bytes), "deletions WHERE first <= last"))
        return [link._replace(mark=marks.get(link.sequence, b"")) for link in links]

    def log(self, request: str | None = None) -> list[Receipt]:
        """Deletions, in order: all, or the one that was asked under this number."""
        joined = (
            "LEFT JOIN log AS b ON b.sequence = first - 1 LEFT JOIN log AS a ON a.sequence = last"
        )
        columns, types = (
            "first, last, b.head, a.head, deletions.at, request",
            (int, int, *[bytes | None] * 2, int),
        )
        which = "" if request is None else "WHERE request = ?"
        rest, values = (
            f"deletions {joined} {which} ORDER BY number",
            [] if request is None else [request],
        )
        answer, store = (
            self._records(columns, (*types, str | None), rest, *values),
            self.state().store,
        )
        start = first_head(store)
        return [
            Receipt(
                store.hex(),
                range(first, last + 1),
                (b or start).hex(),
                (a or start).hex(),
                moment(at),
                asked,
            )
            for first, last, b, a, at, asked in answer
        ]

    def hashes(self, contents: np.ndarray) -> list[bytes]:
        """HMAC-SHA-256 of each content (N, 16) under the secret of this memory."""
        secret = self.state().secret
        return [hmac.digest(secret, content.tobytes(), "sha256") for content in contents]

    def are_blocked(self, contents: np.ndarray) -> np.ndarray:
        """Which of the contents (N, 16) are blocked: (N,) bool."""
        if not self._number("SELECT EXISTS (SELECT * FROM blocked)"):
            return np.zeros(len(contents), dtype=bool)
        asked = "SELECT 1 FROM blocked WHERE hash = ?"
        return np.array([bool(self._ask(asked, one)) for one in self.hashes(contents)], dtype=bool)

    def blocked_count(self) -> int:
        return self._number("SELECT COUNT(*) FROM blocked")

    def last(self) -> ChainLink:
        """The last link of the chain; before any deletion, one of sequence number 0 with the first head."""
        links = self._links("ORDER BY sequence DESC LIMIT 1")
        return links[0] if links else ChainLink(0, 0, b"", first_head(self.state().store))

    def sources_of(self, rows: np.ndarray) -> list[Source]:
        """The source of each row (N,)."""
        asked, rest = rows.tolist(), "sources WHERE row IN (SELECT value FROM json_each(?))"
        answer = self._records(
            "row, file, unit", (int, str | None, str | None), rest, json.dumps(asked)
        )
        found = {row: (file, unit) for row, file, unit in answer}
        return [found.get(row, NOWHERE) for row in asked]

    def rows_from(self, column: Literal["file", "unit"], name: str) -> list[int]:
        """The rows that came from a file or belong to a unit, ascending."""
        return [
            row
            for (row,) in self._records(
                "row", (int,), f"sources WHERE {column} = ? ORDER BY row", name
            )
        ]

    def stray_sources(self) -> int:
        """How many sources belong to no live row: none, unless the ledger was tampered with."""
        live = (
            "row BETWEEN 0 AND (SELECT rows FROM state) - 1 AND row NOT IN (SELECT row FROM dead)"
        )
        return self._number(f"SELECT count(*) FROM sources WHERE NOT ({live})")

    def unchained(self) -> int:
        """How many dead rows are not those of the last links of the chain: none, unless it was tampered with.

        A compaction removes dead rows, and never links.
        """
        links, dead = "(SELECT count(*) FROM log)", "(SELECT count(*) FROM dead)"
        return self._number(
            f"SELECT count(*) FROM dead WHERE sequence NOT BETWEEN {links} - {dead} + 1 AND {links}"
        )

    def unmarked(self) -> int | None:
        """The number of the first deletion in the log that is not what was written, or not that of its links."""
        columns, types = (
            "number, first, last, at, request, mark",
            (int, int, int, int, str | None, bytes),
        )
        hashes: dict[int, list[bytes]] = {}
        self._ask("BEGIN")  # all of the same moment
        try:
            links = self._links("ORDER BY sequence")
            deletions = self._records(columns, types, "deletions ORDER BY number")
            for number, one in self._records("deletion, hash", (int, bytes), "blocked"):
                hashes.setdefault(number, []).append(one)
        finally:
            self._ask("COMMIT")
        mark, ended = b"", 0
        for place, (number, first, last, at, request, written) in enumerate(deletions, start=1):
            mark = next_mark(mark, first, last, at, request, hashes.pop(number, ()))
            wrong = (number, first, written) != (place, ended + 1, mark) or last < ended
            if wrong or {link.at for link in links[ended:last]} - {at}:
                return place
            ended = last
        return None if ended == len(links) and not hashes else len(deletions) + 1

    def integrity(self) -> str:
        """`ok`, or what SQLite finds wrong with its file, its indexes too."""
        return "; ".join(str(line) for (line,) in self._ask("PRAGMA integrity_check"))

    def delete(
        self, rows: np.ndarray, records: np.ndarray, erased: int, request: str | None, block: bool
    ) -> Receipt:
        """Record rows (D,) with records (D,) as dead, and drop their sources: the point of no return.

        request: the number it is asked under; block: whether the contents may not come back.
        """
        last, at, state = self.last(), time.time_ns() // 1000, self.state()
        ((number, mark),) = self._ask(
            f"SELECT (SELECT IFNULL(max(number), 0) + 1 FROM deletions), {LAST_MARK}"
        )
        links, head, sequences = (
            [],
            last.head,
            range(last.sequence + 1, last.sequence + 1 + len(rows)),
        )
        recorded = (sequences.start, sequences.stop - 1, at, request)
        fresh = np.unique(records["content"], axis=0) if block else records["content"][:0]
        hashes = self.hashes(fresh[~self.are_blocked(fresh)])
        carried = mark = next_mark(mark, *recorded, hashes)
        for sequence, commitment in zip(sequences, records["commitment"], strict=True):
            log_entry = entry(commitment.tobytes())
            head, carried = next_head(head, sequence, at, log_entry, carried), b""
            links.append((sequence, at, log_entry, head))
        with self._transaction() as connection:
            connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", links)
            connection.executemany(
                "INSERT INTO dead VALUES (?, ?)", zip(sequences, rows.tolist(), strict=True)
            )
            gone = "SELECT row FROM dead WHERE sequence > ?"
            connection.execute(f"DELETE FROM sources WHERE row IN ({gone})", (last.sequence,))
            if links or request is not None:
                connection.execute(
                    "INSERT INTO deletions VALUES (?, ?, ?, ?, ?, ?)", (number, *recorded, mark)
                )
            connection.executemany(
                "INSERT INTO blocked VALUES (?, ?)", ((one, number) for one in hashes)
            )
            self._keep(state._replace(erased=erased))
        return Receipt(
            state.store.hex(), sequences, last.head.hex(), head.hex(), moment(at), request
        )

    def settled(
        self, erased: int, added: int = 0, sources: Mapping[int, Source] | None = None
    ) -> None:
        """All dead rows up to the sequence number `erased` are zero on the disk. added: rows; sources: by row."""
        state = self.state()
        with self._transaction() as connection:
            connection.executemany(
                INSERT_SOURCE, ((row, *source) for row, source in (sources or {}).items())
            )
            self._keep(state._replace(rows=state.rows + added, erased=erased))

    def switch(self, generation: int, kept: np.ndarray) -> None:
        """The rows `kept`, ascending, lie in another generation now, numbered from 0, none of them dead."""
        state, last, named = (
            self.state(),
            self.last(),
            self._records("row", (int,), "sources ORDER BY row"),
        )
        old = np.array([row for (row,) in named], dtype=np.int64)
        moved = zip(np.searchsorted(kept, old).tolist(), old.tolist(), strict=True)
        with self._transaction() as connection:
            connection.execute("DELETE FROM dead")
            connection.executemany("UPDATE sources SET row = ? WHERE row = ?", moved)
            self._keep(state._replace(generation=generation, rows=len(kept), erased=last.sequence))

    def rewrite(self) -> None:
        """Write the file anew: despite `secure_delete`, unused parts of its pages can hold what was deleted."""
        self._ask("VACUUM")

    def empty_wal(self) -> bool:
        """Move everything out of the write-ahead log and cut it to nothing; whether that was possible."""
        ((busy, *_),) = self._ask("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    def copy(self, path: Path) -> None:
        """Write the ledger to a new file, without anything that unused parts of its pages hold."""
        self._ask("VACUUM INTO ?", str(path))
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()

    def close(self) -> None:
        self._connection.close()
