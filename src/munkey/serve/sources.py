"""Which source file a sample came from: the memory keeps and forgets it together with the sample's row."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from munkey.memory.store.store import Store
from munkey.serve.errors import UnknownFilesError


class Sources:
    """The source files of a model's memory. One is a path as it was given, or relative to `root`, the data set's."""

    def __init__(self, store: Store, root: str | None) -> None:
        self._store, self._root = store, Path(root) if root else None

    def place(self, file: str | None) -> str | None:
        """Where a file lay when it was read, by what the memory says."""
        return None if file is None else str((self._root or Path()) / file)

    def ids_of(self, files: Sequence[str | Path]) -> np.ndarray:
        """The ids of samples that came from these files, ascending. Raises UnknownFilesError with all unknown ones."""
        found = {str(file): self._ids_of(Path(file)) for file in files}
        if unknown := [file for file, ids in found.items() if not ids]:
            raise UnknownFilesError(unknown)
        return np.array(sorted({one for ids in found.values() for one in ids}), dtype=np.int64)

    def _ids_of(self, file: Path) -> list[int]:
        """The ids of a file, named as in the memory or by where it lies now."""
        names = {file.as_posix(), file.absolute().as_posix()}
        if self._root and file.absolute().is_relative_to(self._root):
            names.add(file.absolute().relative_to(self._root).as_posix())
        return [one for name in names for one in self._store.ids_from(name).tolist()]
