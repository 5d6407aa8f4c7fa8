"""Parts of a memory's rows: checks of the input, digests, and commitments."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

MAX_ID = 2**63 - 2  # the id after it, which SQLite must store, has 8 bytes too
DIGEST = 16  # bytes in the digest of a content; identical contents have equal digests
# The file that a row came from, and the unit that it belongs to, such as a person.
Source = tuple[str | None, str | None]


def check_ids(ids: ArrayLike | Iterable[int]) -> np.ndarray:
    """Return ids from a list, array, set, or generator as an array (N,) of int64.

    Raises ValueError unless all of them are integers from 0 to MAX_ID.
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
    if array.size and (int(array.min()) < 0 or int(array.max()) > MAX_ID):
        raise ValueError(
            f"ids must be between 0 and 2^63 - 2, but these range from {array.min()} to {array.max()}"
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


def copy_first_halves(contents: np.ndarray) -> np.ndarray:
    """Copy the first 8 bytes of each content (N, 16) to an array (N,) of uint64."""
    return np.ascontiguousarray(contents[:, :8]).view("<u8")[:, 0]


# What a commitment covers of a row, besides its key, token, and source. `added` is in microseconds
# since 1970, UTC.
COMMITTED = np.dtype(
    [
        ("salt", "u1", (16,)),
        ("id", "<i8"),
        ("label", "<i8"),
        ("content", "u1", (DIGEST,)),
        ("added", "<i8"),
    ]
)


def commit_rows(
    store: bytes,
    committed: np.ndarray,
    keys: np.ndarray | Sequence[bytes],
    tokens: np.ndarray | Sequence[bytes],
    sources: Sequence[Source],
) -> list[bytes]:
    """Compute the commitment of each row, 32 bytes.

    c = SHA-256(store || salt || id || label || content || added || key || token || source).
    Numbers are little-endian. store: the name of the memory, so that a row of another memory does
    not match. committed: (N,) COMMITTED. sources: file and unit of each row, hashed as a JSON list,
    e.g. `["a.png", null]`.
    """
    committed_bytes = np.ascontiguousarray(committed).tobytes()
    commitments = []
    for row, (key, token, source) in enumerate(zip(keys, tokens, sources, strict=True)):
        start = row * COMMITTED.itemsize
        digest = hashlib.sha256(store)
        digest.update(committed_bytes[start : start + COMMITTED.itemsize])
        digest.update(key)
        digest.update(token)
        digest.update(json.dumps(source).encode())
        commitments.append(digest.digest())
    return commitments
