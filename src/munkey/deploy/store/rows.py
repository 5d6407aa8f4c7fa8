"""Rows of a memory, checked before they are stored, their commitments, and where the row of an id lies."""

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

DIGEST = 16  # bytes that are equal for identical contents
FIELDS = [
    ("salt", "u1", (16,)),
    ("id", "<i8"),
    ("label", "<i8"),
    ("content", "u1", (DIGEST,)),
    ("added", "<i8"),
]
HIDDEN = np.dtype(FIELDS).itemsize  # the bytes of a record that its commitment is computed from
RECORD = np.dtype([*FIELDS, ("commitment", "u1", (32,))])  # added: microseconds since 1970
# the file that a row came from, and the unit (a person, say) that it belongs to
Source = tuple[str | None, str | None]
NOWHERE: Source = (None, None)


class Rows(NamedTuple):
    """Rows as stored. records: (N,) RECORD; keys: (N, d) float32; tokens: (N, m) float32."""

    records: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray


def checked_ids(ids: ArrayLike | Iterable[int]) -> np.ndarray:
    """Ids as int64 (N,), also of a set or generator. Raises ValueError but for whole numbers from 0 to 2^63 - 1."""
    loose = (
        isinstance(ids, Iterable)
        and not isinstance(ids, Sequence)
        and not hasattr(ids, "__array__")
    )
    given = np.array([*ids]) if loose else np.asarray(ids)  # type: ignore[misc]  # a set, a generator
    # objects: numbers of any size
    whole = given.dtype.kind in "iu" or all(type(one) is int for one in given.flat)
    if given.ndim != 1 or not whole:
        raise ValueError(
            f"ids must be a list of whole numbers, not {given.dtype} of shape {given.shape}"
        )
    if given.size and (int(given.min()) < 0 or int(given.max()) > np.iinfo(np.int64).max):
        raise ValueError(
            f"ids must lie between 0 and 2^63 - 1; here they go from {given.min()} to {given.max()}"
        )
    return given.astype("<i8")


def checked_matrix(name: str, values: ArrayLike, count: int) -> np.ndarray:
    """float32 (count, width), width at least 1. Raises ValueError for other shapes and numbers, NaN and infinity."""
    matrix = np.asarray(values)
    if matrix.ndim != 2 or len(matrix) != count or matrix.shape[1] < 1 or matrix.dtype.kind != "f":
        raise ValueError(
            f"{name} must be floats, one row for each of {count} ids, not {matrix.dtype} {matrix.shape}"
        )
    with np.errstate(over="ignore"):
        matrix = np.ascontiguousarray(matrix, dtype="<f4")
    if not np.isfinite(matrix).all():
        raise ValueError(
            f"{name} must be finite float32 numbers; row {np.argwhere(~np.isfinite(matrix))[0][0]} is not"
        )
    return matrix


def checked_texts(what: str, texts: Sequence[str | None] | None, count: int) -> list[str | None]:
    """Texts of `count` rows, None where there is none. Raises ValueError for another number, and what is not text."""
    if isinstance(texts, str) or (texts is not None and len(texts) != count):
        raise ValueError(f"{what}s must be a list of {count}, one for each row, not {texts!r:.80}")
    given = list(texts or [None] * count)
    for text in given:
        if text is not None and not (
            isinstance(text, str) and re.fullmatch("[^\ud800-\udfff]+", text)
        ):
            raise ValueError(f"a {what} must be named in text, not {text!r}")
    return given


def key_digests(keys: np.ndarray) -> np.ndarray:
    """What stands for the contents of rows that have no picture: digests (N, 16) uint8 of keys (N, d)."""
    return np.frombuffer(
        b"".join(hashlib.sha256(key).digest()[:DIGEST] for key in keys), "u1"
    ).reshape(-1, DIGEST)


def checked_contents(contents: ArrayLike) -> np.ndarray:
    """Digests of contents: (N, 16) uint8. Raises ValueError for other shapes and types."""
    given = np.asarray(contents)
    if given.dtype != np.uint8 or given.ndim != 2 or given.shape[1] != DIGEST:
        raise ValueError(f"contents must be uint8 (N, {DIGEST}), not {given.dtype} {given.shape}")
    return given


def rows_from(  # noqa: PLR0913  # the parts of a row
    store: bytes,
    ids: ArrayLike,
    keys: ArrayLike,
    tokens: ArrayLike,
    labels: ArrayLike | None = None,
    files: Sequence[str | None] | None = None,
    units: Sequence[str | None] | None = None,
    contents: ArrayLike | None = None,
) -> tuple[Rows, dict[int, Source]]:
    """Rows of a store, added now, with fresh salts and their commitments. Raises ValueError that says what is wrong.

    contents: (N, 16) uint8, by default from the bytes of the key. Also returns the sources that are known, by place.
    """
    ids = checked_ids(ids)
    named = checked_texts("source file", files, len(ids)), checked_texts("unit", units, len(ids))
    sources: list[Source] = list(zip(*named, strict=True))
    if len(np.unique(ids)) != len(ids):
        raise ValueError("an id occurs twice among the rows to add")
    records = np.zeros(len(ids), RECORD)
    given = np.full(len(ids), NOBODY) if labels is None else checked_ids(labels)
    if len(given) != len(ids):
        raise ValueError(f"{len(given)} labels for {len(ids)} ids")
    records["id"], records["label"], records["added"] = ids, given, time.time_ns() // 1000
    records["salt"] = np.frombuffer(secrets.token_bytes(16 * len(ids)), "u1").reshape(-1, 16)
    rows = Rows(
        records, checked_matrix("keys", keys, len(ids)), checked_matrix("tokens", tokens, len(ids))
    )
    if contents is None:
        contents = key_digests(rows.keys)
    if len(digest := checked_contents(contents)) != len(ids):
        raise ValueError(f"{len(digest)} contents for {len(ids)} ids")
    records["content"] = digest
    records["commitment"] = commitments(store, rows, sources)
    return rows, {place: source for place, source in enumerate(sources) if source != NOWHERE}


def commitments(store: bytes, rows: Rows, sources: Sequence[Source]) -> np.ndarray:
    """c = SHA-256(store || salt || id || label || content || added || key || token || source) of each row: (N, 32).

    Numbers are in little-endian order. store: the name of the memory, so that no rows of another one pass for its own;
    sources: file and unit of each row, hashed as a list in JSON, e.g. `["a.png", null]`.
    """
    hidden = np.ascontiguousarray(rows.records).tobytes()
    digests = bytearray()
    for row, (key, token, source) in enumerate(zip(rows.keys, rows.tokens, sources, strict=True)):
        start = row * RECORD.itemsize
        parts = (store, hidden[start : start + HIDDEN], key, token, json.dumps(source).encode())
        digests += hashlib.sha256(b"".join(parts)).digest()
    return np.frombuffer(bytes(digests), "u1").reshape(-1, 32)


def same_contents(records: np.ndarray, contents: np.ndarray) -> np.ndarray:
    """Which of the records (N,) have a content among contents (M, 16): places, ascending. Milliseconds for N = 10^6."""
    held, wanted = (
        np.ascontiguousarray(each[:, :8]).view("<u8")[:, 0]
        for each in (records["content"], contents)
    )
    places, whole = np.flatnonzero(np.isin(held, wanted)), {one.tobytes() for one in contents}
    return places[[one.tobytes() in whole for one in records["content"][places]]]


def entry(commitment: bytes) -> bytes:
    """What the log keeps of a deleted row: SHA-256(c). The commitment itself is erased with the row."""
    return hashlib.sha256(commitment).digest()


class Lookup:
    """ids (N,) -> rows (N,), as two sorted arrays: 16 bytes a row.

    Deleted ids stay until they are added again; the caller looks at `live`.
    """

    def __init__(self, ids: np.ndarray, rows: np.ndarray) -> None:
        order = np.argsort(ids[rows], kind="stable")
        self._rows = rows[order]
        self._ids = ids[self._rows]

    def add(self, ids: np.ndarray, rows: np.ndarray) -> None:
        order = np.argsort(ids, kind="stable")
        # behind a deleted row of the same id
        places = np.searchsorted(self._ids, ids[order], side="right")
        self._ids = np.insert(self._ids, places, ids[order])
        self._rows = np.insert(self._rows, places, rows[order])

    def find(self, ids: np.ndarray, live: np.ndarray) -> np.ndarray:
        """The live row of each id; -1 where there is none."""
        if not len(self._ids):
            return np.full(len(ids), -1)
        places = np.maximum(np.searchsorted(self._ids, ids, side="right") - 1, 0)
        rows = self._rows[places]
        return np.where((self._ids[places] == ids) & live[rows], rows, -1)
