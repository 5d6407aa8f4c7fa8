"""Rows of a memory, checked before they are stored, their commitments, and where the row of an id lies."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.ids import NOBODY

HIDDEN = 32  # the bytes of a record that its commitment is computed from: salt, id, label
RECORD = np.dtype([("salt", "u1", (16,)), ("id", "<i8"), ("label", "<i8"), ("commitment", "u1", (32,))])


class Rows(NamedTuple):
    """Rows as stored. records: (N,) RECORD; keys: (N, d) float32; tokens: (N, m) float32."""

    records: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray


def checked_ids(ids: ArrayLike) -> np.ndarray:
    """Ids as int64 (N,). Raises ValueError where they are not whole numbers from 0 to 2^63 - 1."""
    given = np.asarray(ids)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"ids must be a list of whole numbers, not {given.dtype} of shape {given.shape}")
    if given.size and (int(given.min()) < 0 or int(given.max()) > np.iinfo(np.int64).max):
        raise ValueError(f"ids must lie between 0 and 2^63 - 1; here they go from {given.min()} to {given.max()}")
    return given.astype("<i8")


def checked_matrix(name: str, values: ArrayLike, count: int) -> np.ndarray:
    """float32 (count, width), width at least 1. Raises ValueError for other shapes and numbers, NaN and infinity."""
    matrix = np.asarray(values)
    if matrix.ndim != 2 or len(matrix) != count or matrix.shape[1] < 1 or matrix.dtype.kind != "f":
        raise ValueError(f"{name} must be floats, one row for each of {count} ids, not {matrix.dtype} {matrix.shape}")
    with np.errstate(over="ignore"):
        matrix = np.ascontiguousarray(matrix, dtype="<f4")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must be finite float32 numbers; row {np.argwhere(~np.isfinite(matrix))[0][0]} is not")
    return matrix


def checked_labels(labels: ArrayLike | None, count: int) -> np.ndarray:
    """int64 (count,); NOBODY where there are none."""
    if labels is None:
        return np.full(count, NOBODY, dtype="<i8")
    given = checked_ids(labels)
    if len(given) != count:
        raise ValueError(f"{len(given)} labels for {count} ids")
    return given


def checked_files(files: Sequence[str | None] | None, count: int) -> dict[int, str]:
    """Source files by place among the rows. Raises ValueError for a number other than `count`, and what is not text."""
    if files is not None and len(files) != count:
        raise ValueError(f"{len(files)} source files for {count} ids")
    known = {place: file for place, file in enumerate(files or ()) if file is not None}
    for file in known.values():
        if not isinstance(file, str) or any("\ud800" <= character <= "\udfff" for character in file):
            raise ValueError(f"a source file must be named in text, not {file!r}")
    return known


def rows_from(
    store: bytes,
    ids: ArrayLike,
    keys: ArrayLike,
    tokens: ArrayLike,
    labels: ArrayLike | None,
    files: Mapping[int, str],
) -> Rows:
    """Rows of a store with fresh salts and their commitments. Raises ValueError that says what is wrong.

    files: the source files of some rows, by place.
    """
    whole = checked_ids(ids)
    if len(np.unique(whole)) != len(whole):
        raise ValueError("an id occurs twice among the rows to add")
    records = np.zeros(len(whole), RECORD)
    records["id"], records["label"] = whole, checked_labels(labels, len(whole))
    records["salt"] = np.frombuffer(secrets.token_bytes(16 * len(whole)), "u1").reshape(-1, 16)
    rows = Rows(records, checked_matrix("keys", keys, len(whole)), checked_matrix("tokens", tokens, len(whole)))
    records["commitment"] = commitments(store, rows, [files.get(place) for place in range(len(whole))])
    return rows


def commitments(store: bytes, rows: Rows, files: Sequence[str | None]) -> np.ndarray:
    """c = SHA-256(store || salt || id || label || key || token || file) of each row: (N, 32) bytes.

    Numbers are in little-endian order. store: the name of the memory, so that no rows of another one pass for its own;
    files: the source file of each row, hashed as a zero byte and its name in UTF-8; None adds nothing.
    """
    hidden = np.ascontiguousarray(rows.records).tobytes()
    digests = bytearray()
    for row, (key, token, file) in enumerate(zip(rows.keys, rows.tokens, files, strict=True)):
        start, name = row * RECORD.itemsize, b"" if file is None else b"\0" + file.encode()
        digests += hashlib.sha256(b"".join((store, hidden[start : start + HIDDEN], key, token, name))).digest()
    return np.frombuffer(bytes(digests), "u1").reshape(-1, 32)


def entry(commitment: bytes) -> bytes:
    """What the log keeps of a deleted row: SHA-256(c). The commitment itself is erased with the row."""
    return hashlib.sha256(commitment).digest()


class Lookup:
    """ids (N,) -> rows (N,), as two sorted arrays: 16 bytes a row.

    Deleted ids stay until they are added again; the caller looks at `live`.
    """

    def __init__(self, ids: np.ndarray, rows: np.ndarray) -> None:
        order = np.argsort(ids, kind="stable")
        self._ids, self._rows = ids[order], rows[order]

    @classmethod
    def of(cls, ids: np.ndarray, live: np.ndarray) -> "Lookup":
        """Of the rows of a view that are live. ids, live: (N,) of all its rows."""
        rows = np.flatnonzero(live)
        return cls(ids[rows], rows)

    def add(self, ids: np.ndarray, rows: np.ndarray) -> None:
        order = np.argsort(ids, kind="stable")
        places = np.searchsorted(self._ids, ids[order], side="right")  # behind a deleted row of the same id
        self._ids = np.insert(self._ids, places, ids[order])
        self._rows = np.insert(self._rows, places, rows[order])

    def find(self, ids: np.ndarray, live: np.ndarray) -> np.ndarray:
        """The live row of each id; -1 where there is none."""
        if not len(self._ids):
            return np.full(len(ids), -1)
        places = np.maximum(np.searchsorted(self._ids, ids, side="right") - 1, 0)
        rows = self._rows[places]
        return np.where((self._ids[places] == ids) & live[rows], rows, -1)
