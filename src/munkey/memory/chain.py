"""The chain of deletions: one link per deleted row, with a hash that covers the previous link."""

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple


class ChainLink(NamedTuple):
    """One deleted row in the chain.

    at: time of the deletion, in microseconds since 1970, UTC. entry: `compute_log_entry` of the
    row. head: `compute_next_head` of this link. mark: the mark of the deletion if this is its first
    row, otherwise empty.
    """

    sequence: int
    at: int
    entry: bytes
    head: bytes
    mark: bytes = b""


@dataclass(frozen=True)
class Receipt:
    """The record of a deletion that is on disk.

    Attributes
    ----------
    store : str
        The name of the memory, in hexadecimal.
    sequences : range
        The sequence numbers of the deleted rows in the chain.
    before, after : str
        Heads of the chain before and after the deletion, in hexadecimal.
    when : datetime
        Time of the deletion in UTC, with microseconds.
    request : str or None
        The request number, if the deletion has one.
    repeated : bool
        Whether the request was carried out before, so that nothing was deleted this time.
    """

    store: str
    sequences: range
    before: str
    after: str
    when: datetime
    request: str | None = None
    repeated: bool = False


def compute_first_head(store: bytes) -> bytes:
    """Return the head of an empty chain: SHA-256(name of the store)."""
    return hashlib.sha256(store).digest()


def compute_log_entry(commitment: bytes) -> bytes:
    """Return SHA-256(c), the log entry for a deleted row with commitment c.

    The commitment itself is erased with the row.
    """
    return hashlib.sha256(commitment).digest()


def compute_next_head(head: bytes, sequence: int, at: int, log_entry: bytes, mark: bytes) -> bytes:
    """Return SHA-256(head || sequence || at || entry || mark), with numbers from `to_bytes`."""
    return hashlib.sha256(head + to_bytes(sequence, at) + log_entry + mark).digest()


def compute_next_mark(
    mark: bytes, first: int, last: int, at: int, request: str | None, blocked: Iterable[bytes]
) -> bytes:
    """Return SHA-256(mark || first || last || at || SHA-256(blocked, ascending) || request).

    The result is the mark of a deletion. The link of its first row includes it. mark: the mark of
    the previous deletion. first, last: sequence numbers of the first and last row; `last` is
    `first` - 1 if there are none. blocked: hashes of the contents that the deletion blocks.
    A missing request number counts as empty.
    """
    digest_of_blocked = hashlib.sha256(b"".join(sorted(blocked))).digest()
    request_number = (request or "").encode()
    deletion_as_bytes = mark + to_bytes(first, last, at) + digest_of_blocked + request_number
    return hashlib.sha256(deletion_as_bytes).digest()


def to_bytes(*numbers: int) -> bytes:
    """Encode each integer as 8 bytes, little-endian, and concatenate them."""
    return struct.pack(f"<{len(numbers)}q", *numbers)


def to_datetime(at: int) -> datetime:
    """Convert a time in the log, microseconds since 1970, to a datetime in UTC."""
    return datetime.fromtimestamp(at / 1e6, UTC)
