"""Rows of a memory: input checks, commitments, and lookup by id."""

import hashlib
import json
import secrets
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.ids import NO_LABEL
from munkey.memory.rows import (
    DIGEST,
    Source,
    check_contents,
    check_ids,
    check_matrix,
    check_texts,
    compute_log_entry,
    copy_first_halves,
    digest_keys,
)

__all__ = [
    "COMMITTED_BYTES",
    "DIGEST",
    "NO_SOURCE",
    "RECORD",
    "RowIndex",
    "Rows",
    "Source",
    "check_contents",
    "check_ids",
    "check_matrix",
    "check_texts",
    "compute_commitments",
    "compute_log_entry",
    "copy_first_halves",
    "digest_keys",
    "find_same_contents",
    "make_rows",
]

FIELDS = [
    ("salt", "u1", (16,)),
    ("id", "<i8"),
    ("label", "<i8"),
    ("content", "u1", (DIGEST,)),
    ("added", "<i8"),
]
# A commitment covers this many bytes at the start of its record: all fields but itself.
COMMITTED_BYTES = np.dtype(FIELDS).itemsize
# One row's record. `added` is in microseconds since 1970, UTC.
RECORD = np.dtype([*FIELDS, ("commitment", "u1", (32,))])
NO_SOURCE: Source = (None, None)


class Rows(NamedTuple):
    """Rows as stored. records: (N,) RECORD; keys: (N, d) float32; tokens: (N, m) float32."""

    records: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray


def make_rows(  # noqa: PLR0913  # the parts of a row
    store: bytes,
    ids: ArrayLike,
    keys: ArrayLike,
    tokens: ArrayLike,
    labels: ArrayLike | None = None,
    files: Sequence[str | None] | None = None,
    units: Sequence[str | None] | None = None,
    contents: ArrayLike | None = None,
) -> tuple[Rows, dict[int, Source]]:
    """Create rows for a store, with the current time, new salts, and commitments.

    store: the name of the memory. contents: (N, 16) uint8; by default, digests of the keys. Returns
    the rows, and the source of each row that has one, by index. Raises ValueError for invalid
    input.
    """
    ids = check_ids(ids)
    file_names = check_texts("source file", files, len(ids))
    unit_names = check_texts("unit", units, len(ids))
    sources: list[Source] = list(zip(file_names, unit_names, strict=True))
    if len(np.unique(ids)) != len(ids):
        raise ValueError("an id occurs more than once among the rows to add")
    if labels is None:
        label_array = np.full(len(ids), NO_LABEL)
    else:
        label_array = check_ids(labels)
    if len(label_array) != len(ids):
        raise ValueError(f"{len(label_array)} labels for {len(ids)} ids")
    records = np.zeros(len(ids), RECORD)
    records["id"] = ids
    records["label"] = label_array
    records["added"] = time.time_ns() // 1000  # microseconds
    records["salt"] = np.frombuffer(secrets.token_bytes(16 * len(ids)), "u1").reshape(-1, 16)
    rows = Rows(
        records, check_matrix("keys", keys, len(ids)), check_matrix("tokens", tokens, len(ids))
    )
    if contents is None:
        digests = digest_keys(rows.keys)
    else:
        digests = check_contents(contents)
    if len(digests) != len(ids):
        raise ValueError(f"{len(digests)} contents for {len(ids)} ids")
    records["content"] = digests
    # Last: a commitment covers all other fields of its record.
    records["commitment"] = compute_commitments(store, rows, sources)
    known_sources = {}
    for index, source in enumerate(sources):
        if source != NO_SOURCE:
            known_sources[index] = source
    return rows, known_sources


def compute_commitments(store: bytes, rows: Rows, sources: Sequence[Source]) -> np.ndarray:
    """Compute the commitment of each row: (N, 32) uint8.

    c = SHA-256(store || salt || id || label || content || added || key || token || source).
    Numbers are little-endian. store: the name of the memory, so that a row of another memory does
    not match. sources: file and unit of each row, hashed as a JSON list, e.g. `["a.png", null]`.
    """
    record_bytes = np.ascontiguousarray(rows.records).tobytes()
    digests = bytearray()
    for row, (key, token, source) in enumerate(zip(rows.keys, rows.tokens, sources, strict=True)):
        start = row * RECORD.itemsize
        parts = (
            store,
            record_bytes[start : start + COMMITTED_BYTES],
            key,
            token,
            json.dumps(source).encode(),
        )
        digests += hashlib.sha256(b"".join(parts)).digest()
    return np.frombuffer(bytes(digests), "u1").reshape(-1, 32)


def find_same_contents(records: np.ndarray, halves: np.ndarray, contents: np.ndarray) -> np.ndarray:
    """Return the ascending indices of the records (N,) whose content is one of `contents` (M, 16).

    halves: `copy_first_halves` of the contents of the records. A row that was deleted since then
    may still have its old half there, but its record is zero.
    """
    # Compare the first halves as integers first: a millisecond for N = 10^6 and M = 1.
    candidates = np.flatnonzero(np.isin(halves, copy_first_halves(contents)))
    contents_to_find = {content.tobytes() for content in contents}
    is_same = [content.tobytes() in contents_to_find for content in records["content"][candidates]]
    return candidates[is_same]


class RowIndex:
    """An index from ids to row numbers: two arrays, sorted by id, with 16 bytes per row.

    Deleted rows stay in the index, so `find` needs to know which rows are live.
    """

    def __init__(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Index some rows. ids: the id of each row of the memory. rows: the rows to index."""
        order = np.argsort(ids[rows], kind="stable")
        self._rows = rows[order]
        self._ids = ids[self._rows]

    def add(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Insert ids (N,) and the row of each."""
        order = np.argsort(ids, kind="stable")
        # To the right of deleted rows with the same id, so that `find` returns the newest row.
        positions = np.searchsorted(self._ids, ids[order], side="right")
        self._ids = np.insert(self._ids, positions, ids[order])
        self._rows = np.insert(self._rows, positions, rows[order])

    def find(self, ids: np.ndarray, live: np.ndarray) -> np.ndarray:
        """Return the live row of each id, or -1 for an unknown id. live: (N,) bool, by row."""
        if not len(self._ids):
            return np.full(len(ids), -1)
        # The last position of each id. An id below all others has none, and gets position 0; the
        # comparison of ids below rejects it.
        positions = np.searchsorted(self._ids, ids, side="right") - 1
        positions = np.maximum(positions, 0)
        rows = self._rows[positions]
        is_known = (self._ids[positions] == ids) & live[rows]
        return np.where(is_known, rows, -1)
