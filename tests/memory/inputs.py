"""Small memories in files, and their contents."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from munkey.memory.memory_file import MemoryFile

WIDTHS = (9, 8)  # of keys and tokens


def numbers(count: int, seed: int, width: int) -> np.ndarray:
    return np.random.default_rng((seed, width)).normal(size=(count, width)).astype(np.float32)


def raw(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids that no bytes resemble by chance, keys, and tokens."""
    ids = np.random.default_rng(seed).choice(1 << 40, count, replace=False).astype(np.int64)
    ids += 1 << 61
    return ids, *(numbers(count, seed, width) for width in WIDTHS)


def files_of(ids: np.ndarray) -> list[str]:
    """The source file of each row."""
    return [f"pictures/{row_id:x}.png" for row_id in ids.tolist()]


def units_of(ids: np.ndarray) -> list[str | None]:
    """The unit of each row. Every third row has none."""
    units: list[str | None] = []
    for row_id in ids.tolist():
        units.append(None if row_id % 3 == 0 else f"person {row_id % 100}")
    return units


def create(path: Path, count: int = 12, seed: int = 0) -> MemoryFile:
    rows = raw(count, seed)
    return MemoryFile.create(path, *rows, np.arange(count), files_of(rows[0]), units_of(rows[0]))


def add(file: MemoryFile, count: int, seed: int) -> None:
    rows = raw(count, seed)
    file.add(*rows, files=files_of(rows[0]), units=units_of(rows[0]))


def change_database(path: Path, *statements: str) -> None:
    """Run SQL on the file of a memory, as any program could."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@contextmanager
def open_reader(path: Path) -> Iterator[sqlite3.Connection]:
    """A reader in a transaction, so the log of the memory is not emptied."""
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM state").fetchall()
    yield reader
    reader.close()


def content(file: MemoryFile) -> dict[int, bytes]:
    """All that a reader gets of each row, by id."""
    memory = file.snapshot().memory
    rows = {}
    for row in memory.live_rows.tolist():
        columns = memory.columns
        names = f"{columns.files[row]} {columns.units[row]} {columns.labels[row]}"
        vectors = columns.keys[row].tobytes() + columns.tokens[row].tobytes()
        rows[int(columns.ids[row])] = vectors + columns.contents[row].tobytes() + names.encode()
    return rows
