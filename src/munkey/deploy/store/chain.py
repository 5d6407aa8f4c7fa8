"""The chain of deletions: a link for each deleted row, whose head follows from the one before it."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple


class ChainLink(NamedTuple):
    """One deleted row in the chain. at: microseconds since 1970, UTC."""

    sequence: int
    at: int
    entry: bytes
    head: bytes


@dataclass(frozen=True)
class Receipt:
    """A deletion that is on the disk. store: the memory's name; sequences: numbers of its rows in the log.

    before, after: heads of the chain, hexadecimal; when: to the microsecond, UTC.
    """

    store: str
    sequences: range
    before: str
    after: str
    when: datetime


def first_head(store: bytes) -> bytes:
    """The head of a chain without deletions: SHA-256(name of the store)."""
    return hashlib.sha256(store).digest()


def next_head(head: bytes, sequence: int, at: int, log_entry: bytes) -> bytes:
    """SHA-256(head || sequence || at || entry), the numbers as 8 bytes, little-endian."""
    return hashlib.sha256(b"".join((head, packed(sequence, at), log_entry))).digest()


def packed(*numbers: int) -> bytes:
    """Whole numbers as 8 bytes each, little-endian."""
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)


def moment(at: int) -> datetime:
    """A time in the log, microseconds since 1970, in UTC."""
    return datetime.fromtimestamp(at / 1e6, UTC)
