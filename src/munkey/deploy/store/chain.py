"""The chain of deletions: one link per deleted row, whose head depends on the previous link."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple


class ChainLink(NamedTuple):
    """One deleted row in the chain.

    at: microseconds since 1970, UTC. mark: the deletion's mark, if this is its first row.
    """

    sequence: int
    at: int
    entry: bytes
    head: bytes
    mark: bytes = b""


@dataclass(frozen=True)
class Receipt:
    """A deletion that is on the disk.

    Attributes
    ----------
    store : str
        The name of the memory, hexadecimal.
    sequences : range
        The sequence numbers of its rows in the log.
    before, after : str
        Heads of the chain before and after it, hexadecimal.
    when : datetime
        Time of the deletion, to the microsecond, UTC.
    request : str or None
        The number of its request.
    repeated : bool
        Whether the request was carried out before, so that nothing was deleted this time.
    identical : tuple of int or None
        Ids of exact copies that stay in the memory. Only a `Predictor` sets them, and only for a
        deletion that is not `repeated`, because the log does not store them.
    emptied : tuple of str or None
        Classes without remaining rows. Set under the same conditions as `identical`.
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


def compute_first_head(store: bytes) -> bytes:
    """Return the head of an empty chain: SHA-256(name of the store)."""
    return hashlib.sha256(store).digest()


def compute_next_head(head: bytes, sequence: int, at: int, log_entry: bytes, mark: bytes) -> bytes:
    """Return SHA-256(head || sequence || at || entry || mark); numbers as in `to_bytes`."""
    return hashlib.sha256(head + to_bytes(sequence, at) + log_entry + mark).digest()


def compute_next_mark(
    mark: bytes, first: int, last: int, at: int, request: str | None, blocked: Iterable[bytes]
) -> bytes:
    """Return SHA-256(mark || first || last || at || SHA-256(blocked, ascending) || request).

    The mark identifies a deletion; its first row's link includes it. mark: the previous deletion's
    mark. first, last: sequence numbers of its rows. blocked: the hashes that the deletion blocks
    (`Ledger.are_blocked`).
    """
    digest_of_blocked = hashlib.sha256(b"".join(sorted(blocked))).digest()
    request_number = (request or "").encode()
    parts = mark + to_bytes(first, last, at) + digest_of_blocked + request_number
    return hashlib.sha256(parts).digest()


def to_bytes(*numbers: int) -> bytes:
    """Convert whole numbers to 8 bytes each, little-endian."""
    return b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)


def to_datetime(at: int) -> datetime:
    """Convert a time in the log, microseconds since 1970, to a datetime in UTC."""
    return datetime.fromtimestamp(at / 1e6, UTC)
