"""Small memories, and what is in them."""

from pathlib import Path

import numpy as np

from munkey.deploy.store.rows import Rows, Source, make_rows
from munkey.deploy.store.store import Store

WIDTHS = 9, 8  # of keys and tokens: no two files are of one size


def numbers(count: int, seed: int, width: int) -> np.ndarray:
    return np.random.default_rng((seed, width)).normal(size=(count, width)).astype(np.float32)


def raw(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids that no bytes resemble by chance, keys and tokens."""
    ids = np.random.default_rng(seed).choice(1 << 40, count, replace=False).astype(np.int64) + (
        1 << 61
    )
    return ids, *(numbers(count, seed, width) for width in WIDTHS)


def files_of(ids: np.ndarray) -> list[str]:
    """The source file of each row that `create` and `add` make."""
    return [f"pictures/{one:x}.png" for one in ids.tolist()]


def units_of(ids: np.ndarray) -> list[str | None]:
    """Every third row belongs to nobody."""
    return [None if one % 3 == 0 else f"person {one % 100}" for one in ids.tolist()]


def sources(ids: np.ndarray) -> list[Source]:
    return list(zip(files_of(ids), units_of(ids), strict=True))


def create(folder: Path, count: int = 12, seed: int = 0) -> Store:
    rows = raw(count, seed)
    return Store.create(folder, *rows, np.arange(count), files_of(rows[0]), units_of(rows[0]))


def add(store: Store, count: int, seed: int) -> None:
    rows = raw(count, seed)
    store.add(*rows, files=files_of(rows[0]), units=units_of(rows[0]))


def content(store: Store) -> dict[int, bytes]:
    """Key, token and label of each id, as a reader gets them."""
    view = store.view
    live = np.flatnonzero(view.live)
    rows = view.take_rows(live)
    return {
        int(record["id"]): key.tobytes() + token.tobytes() + record["label"].tobytes()
        for record, key, token in zip(*rows, strict=True)
    }


def expected(
    ids: np.ndarray, keys: np.ndarray, tokens: np.ndarray, labels: np.ndarray | None = None
) -> dict[int, bytes]:
    """What `content` must say of these rows."""
    rows: Rows = make_rows(b"", ids, keys, tokens, labels)[0]
    return {
        int(record["id"]): key.tobytes() + token.tobytes() + record["label"].tobytes()
        for record, key, token in zip(*rows, strict=True)
    }
