"""The chain of deletions: a link for each deleted row, whose head follows from the one before it."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple


class ChainLink(NamedTuple):
    """One deleted row in the chain. at: microseconds since 1970, UTC; mark: of the deletion whose first row this is."""

    sequence: int
    at: int
    entry: bytes
    head: bytes
    mark: bytes = b""


@dataclass(frozen=True)
class Receipt:
    """A deletion that is on the disk. store: the memory's name; sequences: numbers of its rows in the log.

    before, after: heads of the chain, hexadecimal; when: to the microsecond, UTC. request: the number that it was asked
    under; repeated: whether that request had been carried out before, so that nothing was done now.

    A `Predictor` adds, if the deletion was not `repeated`, identical: ids of exact copies that stay in the memory;
    emptied: classes that have no row left. None where that is not known: the log keeps neither.
    """

    store: str
    sequences: range
    before: str
    after: str
    when: datetime
    request: str | None = None
    repeated: bool = False
    identical: tuple[int, ...] | None = None
    emptied: tuple[str, ...] | None = None


def first_head(store: bytes) -> bytes:
    """The head of a chain without deletions: SHA-256(name of the store)."""
    return hashlib.sha256(store).digest()


def next_head(head: bytes, sequence: int, at: int, log_entry: bytes, mark: bytes) -> bytes:
    """SHA-256(head || sequence || at || entry || mark), the numbers as 8 bytes, little-endian."""
    return hashlib.sha256(b"".join((head, packed(sequence, at), log_entry, mark))).digest()


def next_mark(
    mark: bytes, first: int, last: int, at: int, request: str | None, blocked: Iterable[bytes]
) -> bytes:
    """SHA-256(mark before || first || last || at || SHA-256(blocked, ascending) || request): what a deletion was.

    The first row of the deletion carries it into the chain. blocked: the hashes that it blocks (`Ledger.blocked`).
    """
    hashes = hashlib.sha256(b"".join(sorted(blocked))).digest()
    return hashlib.sha256(
        b"".join((mark, packed(first, last, at), hashes, (request or "").encode()))
    ).digest()


def packed(*numbers: int) -> bytes:
    """Whole numbers as 8 bytes each, little-endian."""
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)


def moment(at: int) -> datetime:
    """A time in the log, microseconds since 1970, in UTC."""
    return datetime.fromtimestamp(at / 1e6, UTC)
