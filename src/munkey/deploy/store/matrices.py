"""The rows of one generation of a memory: four files of fixed stride, written in place and read through memory maps.

`keys` and `tokens` hold float32, `records` salt, id, label and commitment, `live` one byte a row.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.deploy.store import disk
from munkey.deploy.store.errors import UnreadableMemoryError
from munkey.deploy.store.rows import RECORD, Rows
from munkey.memory.neighbors import longest

BLOCK = 1024  # rows at a time
NAMES = ("keys", "tokens", "records", "live")


class Copied(NamedTuple):
    """Rows that were copied out of the maps. Where `live` is false, the row was deleted and all else is zero."""

    ids: np.ndarray
    labels: np.ndarray
    tokens: np.ndarray
    live: np.ndarray


@dataclass(frozen=True)
class MemoryView:
    """A memory as it can be read: read-only maps that follow deletions at once, but neither additions nor compactions.

    keys: (N, d) float32; tokens: (N, m) float32; records: (N,); live: (N,) bool. Dead rows are, or soon will be, zero:
    whatever is read must be filtered by `live` after it was read, as `copy` does.
    """

    generation: int
    keys: np.ndarray
    tokens: np.ndarray
    records: np.ndarray
    live: np.ndarray

    @cached_property
    def longest_key(self) -> float:
        """A length that no key exceeds, looked for once: keys can only be zeroed."""
        return longest(self.keys)

    @property
    def ids(self) -> np.ndarray:
        return self.records["id"]

    @property
    def labels(self) -> np.ndarray:
        return self.records["label"]

    def rows(self, rows: np.ndarray) -> Rows:
        """Copies of some rows, dead or alive."""
        return Rows(self.records[rows], self.keys[rows], self.tokens[rows])

    def copy(self, rows: np.ndarray) -> Copied:
        """Copies of rows (any shape) that are still live after they were copied."""
        records, tokens = self.records[rows], self.tokens[rows]
        # looked at last: whatever was deleted before this line is not handed out
        live = self.live[rows]
        records[~live], tokens[~live] = np.zeros((), RECORD), 0
        return Copied(records["id"], records["label"], tokens, live)


_NO_ROWS = np.zeros((0, 0), dtype=np.float32)
# no generation is 0
NOTHING_READ = MemoryView(0, _NO_ROWS, _NO_ROWS, np.zeros(0, RECORD), np.zeros(0, dtype=bool))


class Matrices:
    """The files of a generation. Raises UnreadableMemoryError where one is missing, a link, or too short."""

    def __init__(self, folder: Path, widths: tuple[int, ...], flags: int, rows: int = 0) -> None:
        """widths: numbers in a key and in a token. rows: how many must be there."""
        self.folder = folder
        types = (
            np.dtype(("<f4", widths[:1])),
            np.dtype(("<f4", widths[1:])),
            RECORD,
            np.dtype(bool),
        )
        self._types = dict(zip(NAMES, types, strict=True))
        self._files: dict[str, int] = {}
        if folder.is_symlink():
            raise UnreadableMemoryError(folder, "a link, where the memory's own folder should be")
        for name in NAMES:
            try:
                self._files[name] = disk.open_file(folder / name, flags)
            except OSError as error:
                self.close()
                raise UnreadableMemoryError(
                    folder / name, f"cannot be opened ({error.strerror})"
                ) from error
            size, needed = os.fstat(self._files[name]).st_size, rows * self._types[name].itemsize
            if size < needed:
                self.close()
                raise UnreadableMemoryError(
                    folder / name, f"{size} bytes, where {rows} rows take {needed}"
                )

    @classmethod
    def create(cls, folder: Path, widths: tuple[int, ...]) -> "Matrices":
        """Empty files in a new folder."""
        folder.mkdir()
        return cls(folder, widths, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def view(self, generation: int, rows: int) -> MemoryView:
        """Maps of the first `rows` rows."""
        return MemoryView(generation, *(self._map(name, rows) for name in NAMES))

    def _map(self, name: str, rows: int) -> np.ndarray:
        if not rows:  # nothing cannot be mapped
            return np.zeros(0, self._types[name])
        with os.fdopen(os.dup(self._files[name]), "rb") as file:
            return np.memmap(file, self._types[name], "r", shape=(rows,))

    def _write(self, name: str, data: bytes | memoryview, row: int) -> None:
        try:
            disk.write(self._files[name], data, row * self._types[name].itemsize)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder / name)) from error

    def append(self, at: int, rows: Rows) -> None:
        """Write live rows from row number `at` on. They are on the disk only after `sync`."""
        arrays = rows.keys, rows.tokens, rows.records, np.ones(len(rows.keys), "?")
        for name, array in zip(NAMES, arrays, strict=True):
            self._write(name, np.ascontiguousarray(array).reshape(-1).view("u1").data, at)

    def cut(self, rows: int) -> None:
        """Drop everything behind the first `rows` rows. Raises OSError where a file was replaced while it was open."""
        for name, file in self._files.items():
            if not os.path.samestat(os.fstat(file), (self.folder / name).stat()):
                raise OSError(
                    f"{self.folder / name}: was replaced while the memory was open; open it again"
                )
            if os.fstat(file).st_size != rows * self._types[name].itemsize:
                disk.cut(file, rows * self._types[name].itemsize)

    def hide(self, rows: np.ndarray, total: int) -> None:
        """Clear `live` of some rows, which every reader sees at once."""
        if rows.size:
            first, last = int(rows.min()), int(rows.max())
            live = np.array(self._map("live", total)[first : last + 1])
            live[rows - first] = False
            self._write("live", live.tobytes(), first)

    def set_live(self, live: np.ndarray) -> None:
        self._write("live", live.tobytes(), 0)

    def erase(self, rows: np.ndarray) -> None:
        """Zeros over key, token and record of some rows. They are on the disk only after `sync`."""
        ordered = np.unique(rows)
        ends = (np.diff(ordered) != 1) | (np.arange(1, len(ordered)) % BLOCK == 0)
        # consecutive ones
        for part in np.split(ordered, np.flatnonzero(ends) + 1) if rows.size else ():
            for name in ("keys", "tokens", "records"):
                self._write(name, bytes(len(part) * self._types[name].itemsize), int(part[0]))

    def sync(self) -> None:
        for file in self._files.values():
            disk.sync(file)

    def seal(self) -> None:
        """Wait until a new generation is on the disk, its names too."""
        self.sync()
        disk.sync_folder(self.folder)
        disk.sync_folder(self.folder.parent)

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def retire(folder: Path) -> None:
    """Remove a generation: hide its rows from readers that are still open, write zeros over them, unlink.

    Files that are not the memory's own stay, and then the folder does too.
    """
    paths = [
        path
        for name in reversed(NAMES)
        if (path := folder / name).is_file() and not path.is_symlink()
    ]
    for path in paths:
        file = disk.open_file(path, os.O_RDWR)
        try:
            size = os.fstat(file).st_size
            for start in range(0, size, 1 << 20):
                disk.write(file, bytes(min(1 << 20, size - start)), start)
            disk.sync(file)
        finally:
            os.close(file)
    for path in reversed(paths):
        path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
