"""The rows of one generation of a memory, in four files with a fixed number of bytes per row.

The files are written in place and read through memory maps. `keys` and `tokens` contain float32,
`records` contains `rows.RECORD`, and `live` contains one byte per row.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.deploy.store import disk
from munkey.deploy.store.errors import UnreadableMemoryError
from munkey.deploy.store.rows import RECORD, Rows, copy_first_halves
from munkey.memory.memory import bound_length

BLOCK = 1024  # maximum number of rows to copy or overwrite at a time
NAMES = ("keys", "tokens", "records", "live")


class CopiedRows(NamedTuple):
    """Rows copied from the maps. A row that is not `live` was deleted, and its values are zero."""

    ids: np.ndarray
    labels: np.ndarray
    tokens: np.ndarray
    live: np.ndarray


@dataclass(frozen=True)
class MemoryView:
    """Read-only maps of a memory. They show deletions immediately, but no additions or compactions.

    Attributes
    ----------
    generation : int
        Number of the mapped generation.
    keys, tokens : ndarray of float32, shape (N, d) and (N, m)
        Dead rows are zero, or soon will be. So read rows first, then filter them by `live`, as
        `copy_rows` does.
    records : ndarray of RECORD, shape (N,)
        Salt, id, label, content, time, and commitment.
    live : ndarray of bool, shape (N,)
        Whether each row is live. False for a dead row.
    """

    generation: int
    keys: np.ndarray
    tokens: np.ndarray
    records: np.ndarray
    live: np.ndarray

    @cached_property
    def longest_key(self) -> float:
        """An upper bound of the norms of the keys. Cached, because keys can only become zero."""
        return bound_length(self.keys)

    @cached_property
    def content_halves(self) -> np.ndarray:
        """The first 8 bytes of each row's content: (N,) uint64.

        A cached copy, because contents are far apart in the records. It may be out of date only for
        deleted rows, whose contents in the records are zero (see `find_same_contents`).
        """
        return copy_first_halves(self.records["content"])

    @property
    def ids(self) -> np.ndarray:
        return self.records["id"]

    @property
    def labels(self) -> np.ndarray:
        return self.records["label"]

    def take_rows(self, rows: np.ndarray) -> Rows:
        """Copy rows, both live and dead."""
        return Rows(self.records[rows], self.keys[rows], self.tokens[rows])

    def copy_rows(self, rows: np.ndarray) -> CopiedRows:
        """Copy rows, by an array of row numbers. Rows deleted before the copy ends are zero."""
        records = self.records[rows]
        tokens = self.tokens[rows]
        live = self.live[rows]  # read last: rows deleted before this line are not returned
        records[~live] = np.zeros((), RECORD)
        tokens[~live] = 0
        return CopiedRows(records["id"], records["label"], tokens, live)


_NO_ROWS = np.zeros((0, 0), dtype=np.float32)
# The view before the first read. No generation has the number 0.
EMPTY_VIEW = MemoryView(0, _NO_ROWS, _NO_ROWS, np.zeros(0, RECORD), np.zeros(0, dtype=bool))


class Matrices:
    """The open files of a generation.

    widths: width of a key and of a token. flags: for `os.open`. rows: minimum number of rows.
    Raises UnreadableMemoryError if a file is missing, a symbolic link, or too short.
    """

    def __init__(self, folder: Path, widths: tuple[int, ...], flags: int, rows: int = 0) -> None:
        self.folder = folder
        key_width, token_width = widths
        self._types = {
            "keys": np.dtype(("<f4", (key_width,))),
            "tokens": np.dtype(("<f4", (token_width,))),
            "records": RECORD,
            "live": np.dtype(bool),
        }
        self._files: dict[str, int] = {}
        if folder.is_symlink():
            raise UnreadableMemoryError(folder, "a link, but one of the memory's folders")
        for name in NAMES:
            try:
                self._files[name] = disk.open_file(folder / name, flags)
            except OSError as error:
                self.close()
                raise UnreadableMemoryError(
                    folder / name, f"cannot be opened ({error.strerror})"
                ) from error
            size = os.fstat(self._files[name]).st_size
            needed_bytes = rows * self._types[name].itemsize
            if size < needed_bytes:
                self.close()
                raise UnreadableMemoryError(
                    folder / name, f"{size} bytes, where {rows} rows take {needed_bytes}"
                )

    @classmethod
    def create(cls, folder: Path, widths: tuple[int, ...]) -> "Matrices":
        """Create empty files in a new folder."""
        folder.mkdir()
        return cls(folder, widths, os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def map_rows(self, generation: int, rows: int) -> MemoryView:
        """Map the first `rows` rows."""
        return MemoryView(generation, *(self._map_file(name, rows) for name in NAMES))

    def _map_file(self, name: str, rows: int) -> np.ndarray:
        """Map the first `rows` rows of a file."""
        if not rows:  # an empty file cannot be mapped
            return np.zeros(0, self._types[name])
        # The `with` block closes its descriptor, so give it a copy. The map stays valid.
        with os.fdopen(os.dup(self._files[name]), "rb") as file:
            return np.memmap(file, self._types[name], "r", shape=(rows,))

    def _write_file(self, name: str, data: bytes | memoryview, row: int) -> None:
        try:
            disk.write(self._files[name], data, row * self._types[name].itemsize)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.folder / name)) from error

    def append(self, at: int, rows: Rows) -> None:
        """Write live rows from row number `at` on. They are on disk only after `sync`."""
        arrays = {
            "keys": rows.keys,
            "tokens": rows.tokens,
            "records": rows.records,
            # Written last, so that every live row is complete.
            "live": np.ones(len(rows.keys), dtype=bool),
        }
        for name, array in arrays.items():
            content = np.ascontiguousarray(array).reshape(-1).view("u1")
            self._write_file(name, content.data, at)

    def truncate(self, rows: int) -> None:
        """Remove all bytes after the first `rows` rows. Raises OSError if a file was replaced."""
        for name, file in self._files.items():
            path = self.folder / name
            if not os.path.samestat(os.fstat(file), path.stat()):
                raise OSError(f"{path}: was replaced while the memory was open; open it again")
            size = rows * self._types[name].itemsize
            if os.fstat(file).st_size != size:
                disk.truncate(file, size)

    def hide(self, rows: np.ndarray, total: int) -> None:
        """Set `live` to False for some rows. Every reader sees this immediately.

        total: number of rows in the files.
        """
        if rows.size:
            # Write from the first to the last row at once: only the writer changes this file.
            first = int(rows.min())
            last = int(rows.max())
            live = np.array(self._map_file("live", total)[first : last + 1])
            live[rows - first] = False
            self._write_file("live", live.tobytes(), first)

    def set_live(self, live: np.ndarray) -> None:
        self._write_file("live", live.tobytes(), 0)

    def erase(self, rows: np.ndarray) -> None:
        """Overwrite the keys, tokens, and records of the given rows with zeros.

        The zeros reach the disk only after `sync`.

        Parameters
        ----------
        rows
            Row numbers, in any order. A number may be repeated.
        """
        if not rows.size:
            return
        sorted_rows = np.unique(rows)
        # Write each run of consecutive rows at once. Runs also end at every BLOCK-th row, to bound
        # the memory that the zeros take.
        has_gap = np.diff(sorted_rows) != 1
        ends_block = np.arange(1, len(sorted_rows)) % BLOCK == 0
        run_starts = np.flatnonzero(has_gap | ends_block) + 1
        for run in np.split(sorted_rows, run_starts):
            first = int(run[0])
            for name in ("keys", "tokens", "records"):
                zeros = bytes(len(run) * self._types[name].itemsize)
                self._write_file(name, zeros, first)

    def sync(self) -> None:
        for file in self._files.values():
            disk.sync(file)

    def sync_files_and_names(self) -> None:
        """Wait until the files of a new generation, their names and its folder's are on disk."""
        self.sync()
        disk.sync_folder(self.folder)
        disk.sync_folder(self.folder.parent)

    def close(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def retire_generation(folder: Path) -> None:
    """Hide a generation's rows from open readers, overwrite its files with zeros, and remove them.

    The folder is removed unless it contains other files.
    """
    paths = []
    for name in reversed(NAMES):  # `live` first: it hides the rows
        path = folder / name
        if path.is_file() and not path.is_symlink():
            paths.append(path)
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
