"""Which samples a name means: the memory keeps and forgets source file and unit together with the sample's row."""

import os
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

import numpy as np

from munkey.data.source import printable
from munkey.deploy.errors import AmbiguousFileError
from munkey.deploy.store.rows import Source
from munkey.deploy.store.store import Store

T = TypeVar("T")
MOST_PARTS = 64  # of a pattern, with the folders that it is in
LONGEST = 4096  # characters of a name or a pattern, as of a path in Linux
SPECIAL = frozenset("*?[")  # what makes a pattern of a name that is none


class MemoryRow(NamedTuple):
    """A sample of a memory. label: its class; file: where it lay; unit: whom or what it belongs to; added: when, UTC.

    None where that is not known.
    """

    id: int
    label: str | None
    file: str | None
    unit: str | None
    added: datetime


class Added(NamedTuple):
    """Samples that were added. ids: (N,) int64; identical: of a new id, the ids of identical pictures held before."""

    ids: np.ndarray
    identical: dict[int, tuple[int, ...]]


@dataclass(frozen=True)
class Selection:
    """Samples that were named. ids: (N,) int64, ascending; missing: all that named none; classes: how many of each."""

    ids: np.ndarray
    missing: tuple[str, ...]
    classes: dict[str, int]


def listed(what: str, given: Iterable[T]) -> list[T]:
    """A list of what was named. Raises ValueError for one text or path, which would be taken apart into letters."""
    if isinstance(given, str | bytes | os.PathLike):
        raise ValueError(f"{what} must be a list, but {str(given)!r} is not one; put it into brackets")
    return list(given)


def location(file: str | os.PathLike[str]) -> str:
    """Where a file lies, as a memory names it: from the root on, without `..`; bytes that are not UTF-8 are escaped."""
    return printable(os.path.abspath(file))  # noqa: PTH100 (Path.resolve would follow links)


class SourceFiles:
    """The source files of a model's memory. One is a path as it was given, or relative to `root`, the data set's."""

    def __init__(self, store: Store, root: str | None) -> None:
        self._store, self._root = store, Path(location(root)) if root else Path()

    def place(self, file: str | None) -> str | None:
        """Where a file lay when it was read, by what the memory says."""
        return None if file is None else posixpath.normpath(posixpath.join(self._root, file))

    def held(self) -> tuple[np.ndarray, list[Source]]:
        """The records (N,) of all samples that the memory holds, and file and unit of each."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live)
            sources = self._store.sources_of(rows)
            records = view.records[rows]
            live = view.live[rows]  # looked at last: what was deleted meanwhile is zero
            return records[live], list(compress(sources, live))

    def ids_of(self, files: Iterable[str | Path]) -> dict[str, set[int]]:
        """The ids that each name means, none for one that means nothing. Looks at the memory alone, not at the disk.

        A name: of a file as the memory has it, or where it lies; of a folder, for all below it; or a pattern as in a
        shell, `**` for any folders. Raises AmbiguousFileError for what can mean other files too.
        """
        names = listed("files", files)
        if "" in map(str, names):
            raise ValueError("one of the files has an empty name")
        for name in map(str, names):
            if len(name) > LONGEST:
                said = f"{name[:80]!r}…: has {len(name):,} characters"
                raise ValueError(f"{said}; a name or a pattern may have at most {LONGEST:,}")
        found = {str(name): self._meant(Path(name), self._ids_from) for name in names}
        if not all(found.values()):
            inside: dict[str, list[tuple[str, int]]] = defaultdict(list)  # names and ids of the files in a folder
            below: dict[str, list[str]] = defaultdict(list)  # folders below a place, as in `inside`
            records, sources = self.held()
            for one, (file, _) in zip(records["id"].tolist(), sources, strict=True):
                folder, slash, name = (file or "").rpartition("/")
                inside[folder + slash].append((name, one))
            places = {folder: PurePosixPath(str(self.place(folder))) for folder in inside}
            for folder, path in places.items():
                for above in (path, *path.parents):
                    below[str(above)].append(folder)

            def covered(place: str) -> set[int]:
                """The ids below a folder, or of the files that a pattern stands for."""
                if place in below or not set(place) & SPECIAL:
                    return {one for folder in below.get(place, ()) for name, one in inside[folder] if name}
                if len(parts := PurePosixPath(place).parts) > MOST_PARTS:
                    raise ValueError(f"{place[:80]!r}…: a pattern may have at most {MOST_PARTS} parts between slashes")
                *folders, last = (*parts, "*") if parts[-1] == "**" else parts
                fitting = [own for folder, own in inside.items() if _fits(folders, places[folder].parts)]
                return {one for own in fitting for name, one in own if name and fnmatchcase(name, last)}

            found |= {name: self._meant(Path(name), covered) for name, ids in found.items() if not ids}
        return found

    def _ids_from(self, place: str) -> set[int]:
        """The ids of the samples that came from the file at this place."""
        relative = Path(place).is_relative_to(self._root)
        names = {place, Path(place).relative_to(self._root).as_posix()} if relative else {place}
        return {one for name in names for one in self._store.ids_from(name).tolist()}

    def _meant(self, file: Path, ids_from: Callable[[str], set[int]]) -> set[int]:
        """The ids of what is named as in the memory, or by where it lies now."""
        name, place = str(self._root / printable(file.as_posix())), location(file)
        named, lying = ids_from(name) if file.parts else set(), ids_from(place)  # `.` is a place
        if lying and not named <= lying:
            raise AmbiguousFileError({name: named, place: lying})
        return named | lying


def _fits(pattern: Sequence[str], folder: Sequence[str]) -> bool:
    """Whether a folder is one that the pattern stands for, both as the parts of their paths."""
    ends = {0}  # how many parts of the folder the pattern can stand for, up to here
    for part in pattern:
        if part == "**":
            ends = {*range(min(ends), len(folder) + 1)} if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(folder) and fnmatchcase(folder[end], part)}
    return len(folder) in ends
