"""Which source file a sample came from: the memory keeps and forgets it together with the sample's row."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from munkey.data.source import printable
from munkey.deploy.errors import AmbiguousFileError, UnknownFilesError
from munkey.deploy.store.store import Store


def location(file: str | os.PathLike[str]) -> str:
    """Where a file lies, as a memory names it: from the root on, without `..`; bytes that are not UTF-8 are escaped."""
    return printable(os.path.abspath(file))  # noqa: PTH100 (Path.resolve would follow links)


class SourceFiles:
    """The source files of a model's memory. One is a path as it was given, or relative to `root`, the data set's."""

    def __init__(self, store: Store, root: str | None) -> None:
        self._store, self._root = store, Path(location(root)) if root else None

    def place(self, file: str | None) -> str | None:
        """Where a file lay when it was read, by what the memory says."""
        return None if file is None else str((self._root or Path()) / file)

    def ids_of(self, files: Sequence[str | Path]) -> np.ndarray:
        """The ids of samples that came from these files, ascending.

        Raises UnknownFilesError with all unknown ones, AmbiguousFileError for a name that means two files.
        """
        found = {str(file): self._ids_of(Path(file)) for file in files}
        if unknown := [file for file, ids in found.items() if not ids]:
            raise UnknownFilesError(unknown)
        return np.array(sorted({one for ids in found.values() for one in ids}), dtype=np.int64)

    def _ids_of(self, file: Path) -> set[int]:
        """The ids of a file, named as in the memory or by where it lies now."""
        name, place = printable(file.as_posix()), Path(location(file))
        places = [place, place.relative_to(self._root)] if self._root and place.is_relative_to(self._root) else [place]
        named, lying = self._ids_from(name), self._ids_from(*(one.as_posix() for one in places))
        if lying and not named <= lying:
            raise AmbiguousFileError({self.place(name) or name: named, str(place): lying})
        return named | lying

    def _ids_from(self, *names: str) -> set[int]:
        return {one for name in names for one in self._store.ids_from(name).tolist()}
