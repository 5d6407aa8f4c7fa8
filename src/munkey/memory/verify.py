"""Verification of a memory in a file: its chain and all commitments, recomputed from the file."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from munkey.core.console import pluralize
from munkey.memory.chain import (
    compute_first_head,
    compute_log_entry,
    compute_next_head,
    compute_next_mark,
)
from munkey.memory.database import query_one
from munkey.memory.rows import COMMITTED, commit_rows

BLOCK = 256  # rows that are read at a time
SAMPLE = 16  # rows that are checked when a memory is opened
# Whole rows; values of `vectors` are None if it lacks a row.
ROWS = (
    "SELECT number, id, label, content, added, unit, file, salt, commitment, key, token"
    " FROM rows LEFT JOIN vectors USING (number)"
)
Link = tuple[int, int, bytes, bytes]  # sequence number, time, entry, and head


class Record(NamedTuple):
    """A row as the file holds it. If the file is damaged, values may have any type."""

    number: int
    id: int
    label: int
    content: bytes
    added: int
    unit: str | None
    file: str | None
    salt: bytes
    commitment: bytes
    key: bytes
    token: bytes


@dataclass(frozen=True)
class MemoryReport:
    """The result of a verification.

    Attributes
    ----------
    rows : int
        Number of rows.
    deletions : int
        Number of links in the chain.
    head : str
        The head of the chain, in hexadecimal.
    problems : tuple of str
        One sentence per fault.
    foreign : tuple of str
        Files beside the memory that do not belong to it. They were not checked.
    """

    rows: int
    deletions: int
    head: str
    problems: tuple[str, ...]
    foreign: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        foreign = ""
        if self.foreign:
            foreign = f"; not checked, since not part of it: {', '.join(self.foreign)}"
        if self.problems:
            return f"NOT VERIFIED: {'; '.join(self.problems)}{foreign}"
        return (
            f"verified: the commitments of {pluralize(self.rows, 'row')} match, and no deleted row"
            " was put back (a picture that was added again is another row); an unbroken chain of"
            f" {pluralize(self.deletions, 'deleted sample')} that ends in {self.head}{foreign}"
        )


def check_memory(
    connection: sqlite3.Connection, store: bytes, count: int, published: str | None
) -> MemoryReport:
    """Check a memory, in a read transaction.

    store: the name of the memory. count: the number of its rows. published: a head that must be in
    the chain.
    """
    problems = []
    faults = connection.execute("PRAGMA integrity_check").fetchall()
    if faults != [("ok",)]:
        text = "; ".join(str(fault) for (fault,) in faults)
        problems.append(f"SQLite finds its file damaged: {text}")
    links = read_links(connection)
    first_head = compute_first_head(store)
    problems += find_chain_faults(connection, links, store)
    heads = {head.hex() for *_, head in links} | {first_head.hex()}
    if published is not None and published not in heads:
        problems.append(
            f"the published head {published} is not in the chain: this is an older copy, or another"
            " memory"
        )
    entries = {entry for _, _, entry, _ in links}
    problems += _find_row_faults(connection, store, count, entries)
    problems += _find_dropped_faults(connection)
    head = links[-1][3] if links else first_head
    return MemoryReport(count, len(links), head.hex(), tuple(problems))


def read_links(connection: sqlite3.Connection) -> list[Link]:
    """Read the links of the chain, in order."""
    query = "SELECT sequence, at, entry, head FROM log ORDER BY sequence"
    return connection.execute(query).fetchall()


def find_chain_faults(
    connection: sqlite3.Connection, links: list[Link], store: bytes
) -> Iterator[str]:
    """Describe changes in the chain, or in the log of requests that it covers."""
    hashes: dict[int, list[bytes]] = {}  # of blocked contents, by deletion
    for number, digest in connection.execute("SELECT deletion, hash FROM blocked"):
        hashes.setdefault(number, []).append(digest)
    query = "SELECT number, first, last, at, request, mark FROM deletions ORDER BY number"
    false_deletion = (
        "the log of requests, or the list of blocked contents, was changed at deletion {}"
    )
    marks = {}
    mark = b""
    last_so_far = 0  # sequence number of the last link of the deletions so far
    number = 0
    for number, deletion in enumerate(connection.execute(query), start=1):
        recorded_number, first, last, at, request, recorded_mark = deletion
        mark = compute_next_mark(mark, first, last, at, request, hashes.pop(recorded_number, ()))
        is_next = recorded_number == number and first == last_so_far + 1 and last >= last_so_far
        if (
            recorded_mark != mark
            or not is_next
            or any(at != link[1] for link in links[first - 1 : last])
        ):
            yield false_deletion.format(number)
            return
        if last >= first:  # a deletion without rows has last = first - 1
            marks[first] = mark
        last_so_far = last
    # Links or blocked contents are left over, so a deletion is missing at the end.
    if last_so_far != len(links) or hashes:
        yield false_deletion.format(number + 1)
    head = compute_first_head(store)
    for expected_sequence, (sequence, at, entry, recorded_head) in enumerate(links, start=1):
        head = compute_next_head(head, sequence, at, entry, marks.get(sequence, b""))
        if sequence != expected_sequence or recorded_head != head:
            yield f"the chain of deletions is broken at link {expected_sequence}"
            return


def _find_row_faults(
    connection: sqlite3.Connection, store: bytes, count: int, entries: set[bytes]
) -> Iterator[str]:
    """Describe rows that do not match their commitment, or were deleted, or are not possible.

    entries: those of the log of deletions.
    """
    wrong_rows = []
    returned_rows = []
    infinite_rows = []
    all_ids = []
    cursor = connection.execute(f"{ROWS} ORDER BY number")
    while block := cursor.fetchmany(BLOCK):
        records = [Record(*values) for values in block]
        for record, commitment in zip(records, recompute_commitments(store, records), strict=True):
            all_ids.append(record.id)
            if commitment is None or commitment != record.commitment:
                wrong_rows.append(record.number)
            elif compute_log_entry(commitment) in entries:
                returned_rows.append(record.number)
            elif not np.isfinite(np.frombuffer(record.key + record.token, "<f4")).all():
                infinite_rows.append(record.number)
    if len(all_ids) != count:
        yield f"it has {pluralize(len(all_ids), 'row')} in place of {count}"
    if len(set(all_ids)) != len(all_ids):
        yield "several rows have the same id"
    [vector_count] = query_one(connection, "SELECT count(*) FROM vectors")
    if vector_count != len(all_ids):
        yield f"{pluralize(vector_count, 'vector')} for {pluralize(len(all_ids), 'row')}"
    for fault, rows in (
        ("not matching their commitment", wrong_rows),
        ("deleted and back", returned_rows),
        ("with numbers that are not finite", infinite_rows),
    ):
        if rows:
            yield f"{pluralize(len(rows), 'row')} {fault}: {', '.join(map(str, rows[:5]))}"


def recompute_commitments(store: bytes, records: Sequence[Record]) -> list[bytes | None]:
    """Compute the commitment of each row; None for one that has values of a wrong type."""
    if not records:
        return []
    committed = np.zeros(len(records), COMMITTED)
    try:
        committed["id"] = [record.id for record in records]
        committed["label"] = [record.label for record in records]
        committed["added"] = [record.added for record in records]
        for name in ("content", "salt"):
            digests = b"".join(getattr(record, name) for record in records)
            committed[name] = np.frombuffer(digests, np.uint8).reshape(len(records), -1)
        keys = [record.key for record in records]
        tokens = [record.token for record in records]
        sources = [(record.file, record.unit) for record in records]
        return list(commit_rows(store, committed, keys, tokens, sources))
    except (OverflowError, TypeError, ValueError):
        if len(records) == 1:
            return [None]
        return [recompute_commitments(store, [record])[0] for record in records]


def find_wrong_row(connection: sqlite3.Connection, store: bytes, last_number: int) -> int | None:
    """Return the number of a row that does not match its commitment, among SAMPLE rows.

    A log or a page of another memory, for example, has other rows. last_number: the largest row
    number so far.
    """
    for start in np.linspace(1, max(last_number, 1), SAMPLE, dtype=np.int64).tolist():
        block = connection.execute(f"{ROWS} WHERE number >= ? ORDER BY number LIMIT 1", (start,))
        for values in block:
            record = Record(*values)
            if recompute_commitments(store, [record]) != [record.commitment]:
                return record.number
    return None


def _find_dropped_faults(connection: sqlite3.Connection) -> Iterator[str]:
    """Describe faults in the list of dropped row numbers, which other processes follow."""
    query = (
        "SELECT count(*), (SELECT count(*) FROM dropped WHERE number IN (SELECT number FROM rows)),"
        " IFNULL(min(sequence), 1), IFNULL(max(sequence), 0) FROM dropped"
    )
    [count, live_count, first, last] = query_one(connection, query)
    [sequence] = query_one(connection, "SELECT IFNULL(max(sequence), 0) FROM log")
    if live_count or count != last - first + 1 or (count and last != sequence):
        yield "its list of dropped row numbers does not match its rows or its chain"
