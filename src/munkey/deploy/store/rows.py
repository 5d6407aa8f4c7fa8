"""Rows of a memory: input checks, commitments, and lookup by id."""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.ids import NO_LABEL

DIGEST = 16  # bytes in the digest of a content; identical contents have equal digests
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
# The file that a row came from, and the unit that it belongs to, such as a person.
Source = tuple[str | None, str | None]
NO_SOURCE: Source = (None, None)


class Rows(NamedTuple):
    """Rows as stored. records: (N,) RECORD; keys: (N, d) float32; tokens: (N, m) float32."""

    records: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray


def check_ids(ids: ArrayLike | Iterable[int]) -> np.ndarray:
    """Return ids from a list, array, set, or generator as an array (N,) of int64.

    Raises ValueError unless all of them are integers from 0 to 2^63 - 1.
    """
    is_array_like = isinstance(ids, Sequence) or hasattr(ids, "__array__")
    if isinstance(ids, Iterable) and not is_array_like:
        array = np.array(list(ids))  # NumPy would treat a set or a generator as one object
    else:
        array = np.asarray(ids)
    # NumPy stores integers as Python objects if they are too large for its integer types.
    is_whole = array.dtype.kind in "iu" or all(type(value) is int for value in array.flat)
    if array.ndim != 1 or not is_whole:
        raise ValueError(
            f"ids must be a list of whole numbers, not {array.dtype} of shape {array.shape}"
        )
    if array.size and (int(array.min()) < 0 or int(array.max()) > np.iinfo(np.int64).max):
        raise ValueError(
            f"ids must be between 0 and 2^63 - 1, but these range from {array.min()} to {array.max()}"
        )
    return array.astype("<i8")


def check_matrix(name: str, values: ArrayLike, count: int) -> np.ndarray:
    """Return a matrix (count, width) as float32.

    Raises ValueError unless it has `count` rows of at least one finite float. name: the name of the
    matrix in the message.
    """
    matrix = np.asarray(values)
    if matrix.ndim != 2 or len(matrix) != count or matrix.shape[1] < 1 or matrix.dtype.kind != "f":
        raise ValueError(
            f"{name} must be floats, one row for each of {count} ids, not {matrix.dtype}"
            f" {matrix.shape}"
        )
    with np.errstate(over="ignore"):
        matrix = np.ascontiguousarray(matrix, dtype="<f4")
    bad_rows = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad_rows):
        raise ValueError(f"{name} must be finite float32 numbers; row {bad_rows[0]} is not")
    return matrix


def check_texts(kind: str, texts: Sequence[str | None] | None, count: int) -> list[str | None]:
    """Return a list with a string or None for each of `count` rows.

    Without texts, all are None. Raises ValueError for a wrong number of texts, and for one that is
    not a string, is empty, or cannot be encoded in UTF-8. kind: the noun for a text in the message.
    """
    if isinstance(texts, str) or (texts is not None and len(texts) != count):
        raise ValueError(f"{kind}s must be a list of {count}, one for each row, not {texts!r:.80}")
    if not texts:
        return [None] * count
    for text in texts:
        if text is None:
            continue
        # Not empty, and without surrogates, which UTF-8 cannot encode.
        is_valid = isinstance(text, str) and re.fullmatch("[^\ud800-\udfff]+", text)
        if not is_valid:
            raise ValueError(f"a {kind} must be a non-empty string, not {text!r}")
    return list(texts)


def digest_keys(keys: np.ndarray) -> np.ndarray:
    """Return a digest of each key (N, d): (N, 16) uint8, the content of a row without a picture."""
    digests = b"".join(hashlib.sha256(key).digest()[:DIGEST] for key in keys)
    return np.frombuffer(digests, "u1").reshape(-1, DIGEST)


def check_contents(contents: ArrayLike) -> np.ndarray:
    """Return digests of contents as an array. Raises ValueError unless they are (N, 16) uint8."""
    array = np.asarray(contents)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != DIGEST:
        raise ValueError(f"contents must be uint8 (N, {DIGEST}), not {array.dtype} {array.shape}")
    return array


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


def copy_first_halves(contents: np.ndarray) -> np.ndarray:
    """Copy the first 8 bytes of each content (N, 16) to an array (N,) of uint64."""
    return np.ascontiguousarray(contents[:, :8]).view("<u8")[:, 0]


def compute_log_entry(commitment: bytes) -> bytes:
    """Return SHA-256(c), the log entry for a deleted row with commitment c.

    The commitment itself is erased with the row.
    """
    return hashlib.sha256(commitment).digest()


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
