"""Which source file a sample came from, in a small database: what is forgotten leaves it too."""

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from munkey.serve.errors import UnknownFilesError, UnreadableModelError

SCHEMA = (
    "CREATE INDEX by_file ON sources (file)",
    "CREATE TABLE sources (id INTEGER PRIMARY KEY, file TEXT NOT NULL) STRICT",
)


class Sources:
    """ids -> files. A file is a path as it was given, or one relative to `root`, the folder of the data set."""

    def __init__(self, path: Path, root: str | None) -> None:
        """Raises UnreadableModelError where the file is no such database."""
        self.path, self.root = path, Path(root) if root else None
        self._guard = threading.Lock()
        if path.is_symlink() or not path.is_file():
            raise UnreadableModelError(path, "is not a plain file")
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            found = self._connection.execute("SELECT sql FROM sqlite_schema ORDER BY name").fetchall()
        except sqlite3.DatabaseError as error:
            self.close()
            raise UnreadableModelError(path, f"cannot be read ({error})") from error
        if found != [(part,) for part in SCHEMA]:
            self.close()
            raise UnreadableModelError(path, "is not the table of source files")
        for setting in ("synchronous=FULL", "secure_delete=ON"):
            self._connection.execute(f"PRAGMA {setting}")

    @staticmethod
    def create(path: Path, files: Mapping[int, str]) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(f"BEGIN; {SCHEMA[1]}; {SCHEMA[0]};")
        connection.executemany("INSERT INTO sources VALUES (?, ?)", files.items())
        connection.execute("COMMIT")
        connection.close()

    def add(self, files: Mapping[int, str]) -> None:
        self._many("INSERT INTO sources VALUES (?, ?)", files.items())

    def remove(self, ids: np.ndarray) -> None:
        self._many("DELETE FROM sources WHERE id = ?", ((int(one),) for one in ids))

    def keep(self, ids: np.ndarray) -> None:
        """Remove all but these: what a killed process had not removed yet."""
        self.remove(np.setdiff1d(self.ids(), ids))

    def ids(self) -> np.ndarray:
        return np.array([one for (one,) in self._ask("SELECT id FROM sources")], dtype=np.int64)

    def files_of(self, ids: np.ndarray) -> list[str | None]:
        """Where the file of each id lay when it was read, None where that is not known."""
        found = [self._ask("SELECT file FROM sources WHERE id = ?", one) for one in ids.tolist()]
        return [str((self.root or Path()) / rows[0][0]) if rows else None for rows in found]

    def ids_of(self, files: Sequence[str | Path]) -> np.ndarray:
        """The ids of samples that came from these files, ascending. Raises UnknownFilesError with all unknown ones."""
        found = {str(file): self._ids_of(Path(file)) for file in files}
        if unknown := [file for file, ids in found.items() if not ids]:
            raise UnknownFilesError(unknown)
        return np.array(sorted({one for ids in found.values() for one in ids}), dtype=np.int64)

    def _ids_of(self, file: Path) -> list[int]:
        """The ids of a file, named as in the database or by where it lies now."""
        names = [file.as_posix(), file.absolute().as_posix()]
        if self.root and file.absolute().is_relative_to(self.root):
            names.append(file.absolute().relative_to(self.root).as_posix())
        return [one for name in names for (one,) in self._ask("SELECT id FROM sources WHERE file = ?", name)]

    def purge(self) -> bool:
        """Leave no byte of what was removed in any file; whether that was possible."""
        ((busy, *_),) = self._ask("PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy

    def close(self) -> None:
        self._connection.close()

    def _ask(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        with self._guard:
            try:
                return self._connection.execute(question, values).fetchall()
            except sqlite3.DatabaseError as error:
                raise UnreadableModelError(self.path, f"cannot be read ({error})") from error

    def _many(self, command: str, rows: Iterable[Sequence[object]]) -> None:
        """All or nothing, and on the disk when this returns."""
        with self._guard:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(command, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
