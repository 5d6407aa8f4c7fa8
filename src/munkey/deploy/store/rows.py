"""Rows of a memory: checks before they are stored, commitments, and the lookup of an id."""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.ids import NOBODY

DIGEST = 16  # bytes of a digest, equal for identical contents
FIELDS = [
    ("salt", "u1", (16,)),
    ("id", "<i8"),
    ("label", "<i8"),
    ("content", "u1", (DIGEST,)),
    ("added", "<i8"),
]
COMMITTED_BYTES = np.dtype(FIELDS).itemsize  # bytes of a record that its commitment covers
RECORD = np.dtype([*FIELDS, ("commitment", "u1", (32,))])  # added: microseconds since 1970
# the file that a row came from, and the unit (a person, say) that it belongs to
Source = tuple[str | None, str | None]
NO_SOURCE: Source = (None, None)


class Rows(NamedTuple):
    """Rows as stored. records: (N,) RECORD; keys: (N, d) float32; tokens: (N, m) float32."""

    records: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray


def check_ids(ids: ArrayLike | Iterable[int]) -> np.ndarray:
    """Check ids, also from a set or a generator, and return them as int64 (N,).

    Raises ValueError unless they are whole numbers from 0 to 2^63 - 1.
    """
    if (
        isinstance(ids, Iterable)
        and not isinstance(ids, Sequence)
        and not hasattr(ids, "__array__")
    ):
        array = np.array([*ids])  # of a set or a generator
    else:
        array = np.asarray(ids)
    # Numbers too large for any integer type become objects.
    is_whole = array.dtype.kind in "iu" or all(type(value) is int for value in array.flat)
    if array.ndim != 1 or not is_whole:
        raise ValueError(
            f"ids must be a list of whole numbers, not {array.dtype} of shape {array.shape}"
        )
    if array.size and (int(array.min()) < 0 or int(array.max()) > np.iinfo(np.int64).max):
        raise ValueError(
            f"ids must lie between 0 and 2^63 - 1; here they go from {array.min()} to {array.max()}"
        )
    return array.astype("<i8")


def check_matrix(name: str, values: ArrayLike, count: int) -> np.ndarray:
    """Check a matrix (count, width), width at least 1, and return it as float32."""
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
    """Check the texts of `count` rows, None if a row has none, and return them as a list."""
    if isinstance(texts, str) or (texts is not None and len(texts) != count):
        raise ValueError(f"{kind}s must be a list of {count}, one for each row, not {texts!r:.80}")
    if not texts:
        return [None] * count
    for text in texts:
        is_text = isinstance(text, str) and re.fullmatch("[^\ud800-\udfff]+", text)
        if text is not None and not is_text:
            raise ValueError(f"a {kind} must be named in text, not {text!r}")
    return list(texts)


def digest_keys(keys: np.ndarray) -> np.ndarray:
    """Digest keys (N, d): (N, 16) uint8, the content of rows without a picture."""
    digests = b"".join(hashlib.sha256(key).digest()[:DIGEST] for key in keys)
    return np.frombuffer(digests, "u1").reshape(-1, DIGEST)


def check_contents(contents: ArrayLike) -> np.ndarray:
    """Check digests of contents: (N, 16) uint8."""
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
    """Make rows of a store, added now, with fresh salts and commitments. Raises ValueError.

    contents: (N, 16) uint8, by default from the bytes of the key. Also returns the known sources,
    by place.
    """
    ids = check_ids(ids)
    file_names = check_texts("source file", files, len(ids))
    unit_names = check_texts("unit", units, len(ids))
    sources: list[Source] = list(zip(file_names, unit_names, strict=True))
    if len(np.unique(ids)) != len(ids):
        raise ValueError("an id occurs twice among the rows to add")
    records = np.zeros(len(ids), RECORD)
    label_array = np.full(len(ids), NOBODY) if labels is None else check_ids(labels)
    if len(label_array) != len(ids):
        raise ValueError(f"{len(label_array)} labels for {len(ids)} ids")
    records["id"] = ids
    records["label"] = label_array
    records["added"] = time.time_ns() // 1000
    records["salt"] = np.frombuffer(secrets.token_bytes(16 * len(ids)), "u1").reshape(-1, 16)
    rows = Rows(
        records, check_matrix("keys", keys, len(ids)), check_matrix("tokens", tokens, len(ids))
    )
    digests = digest_keys(rows.keys) if contents is None else check_contents(contents)
    if len(digests) != len(ids):
        raise ValueError(f"{len(digests)} contents for {len(ids)} ids")
    records["content"] = digests
    records["commitment"] = compute_commitments(store, rows, sources)
    return rows, {place: source for place, source in enumerate(sources) if source != NO_SOURCE}


def compute_commitments(store: bytes, rows: Rows, sources: Sequence[Source]) -> np.ndarray:
    """Compute the commitment of each row: (N, 32).

    c = SHA-256(store || salt || id || label || content || added || key || token || source).
    Numbers are little-endian. store: the name of the memory, so that rows of another one do not
    pass for its own. sources: file and unit of each row, as a list in JSON, e.g. `["a.png", null]`.
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
    """Find the places of the records (N,) whose content is among contents (M, 16), ascending.

    It compares the first halves first, as numbers: a millisecond for N = 10^6 and M = 1.

    halves: the `copy_first_halves` of the records' contents; those of rows deleted since may be theirs still.
    """
    places = np.flatnonzero(np.isin(halves, copy_first_halves(contents)))
    whole_contents = {content.tobytes() for content in contents}
    is_same = [content.tobytes() in whole_contents for content in records["content"][places]]
    return places[is_same]


def copy_first_halves(contents: np.ndarray) -> np.ndarray:
    """The first 8 bytes of each content (N, 16), as uint64 (N,)."""
    return np.ascontiguousarray(contents[:, :8]).view("<u8")[:, 0]


def compute_log_entry(commitment: bytes) -> bytes:
    """SHA-256(c), the log's entry for a deleted row. The commitment c is erased with the row."""
    return hashlib.sha256(commitment).digest()


class RowIndex:
    """The row of each id, as two sorted arrays: 16 bytes per row.

    Deleted ids stay until they are added again, so the caller passes `live`.
    """

    def __init__(self, ids: np.ndarray, rows: np.ndarray) -> None:
        order = np.argsort(ids[rows], kind="stable")
        self._rows = rows[order]
        self._ids = ids[self._rows]

    def add(self, ids: np.ndarray, rows: np.ndarray) -> None:
        order = np.argsort(ids, kind="stable")
        # After a deleted row of the same id, if there is one.
        places = np.searchsorted(self._ids, ids[order], side="right")
        self._ids = np.insert(self._ids, places, ids[order])
        self._rows = np.insert(self._rows, places, rows[order])

    def find(self, ids: np.ndarray, live: np.ndarray) -> np.ndarray:
        """The live row of each id, or -1."""
        if not len(self._ids):
            return np.full(len(ids), -1)
        places = np.maximum(np.searchsorted(self._ids, ids, side="right") - 1, 0)
        rows = self._rows[places]
        return np.where((self._ids[places] == ids) & live[rows], rows, -1)
