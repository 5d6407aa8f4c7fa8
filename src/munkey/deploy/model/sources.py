"""Which samples a name means: the memory keeps and forgets source file and unit together with the sample's row."""

import os
import posixpath
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

import numpy as np

from munkey.data.intake.unit_names import near_names
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
    """Samples that were named. ids: (N,) int64, ascending; missing: all that named none; classes: how many of each.

    hint: which names are near those that are missing, in words.
    """

    ids: np.ndarray
    missing: tuple[str, ...]
    classes: dict[str, int]
    hint: str = ""


def listed(what: str, given: Iterable[T]) -> list[T]:
    """A list of what was named. Raises ValueError for one text or path, which would be taken apart into letters."""
    if isinstance(given, str | bytes | os.PathLike):
        raise ValueError(
            f"{what} must be a list, but {str(given)!r} is not one; put it into brackets"
        )
    return list(given)


def spelled(path: str) -> str:
    """A path as people type it: in Unicode's form NFC, since Macs write NFD, and without blanks around its parts."""
    return "/".join(part.strip() for part in unicodedata.normalize("NFC", path).split("/"))


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
        shell, `**` for any folders. What means nothing so is looked up as seen from the folders above the root, and in
        another Unicode form. Raises AmbiguousFileError for what can mean other files too.
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
            held = self.held()
            covered = self._covering(held, str)
            found |= {
                name: self._meant(Path(name), covered) for name, ids in found.items() if not ids
            }
            found |= {
                name: self._seen_from_above(name, covered) for name, ids in found.items() if not ids
            }
        if not all(found.values()):
            alike = self._covering(held, spelled)
            found |= {
                name: self._meant(Path(spelled(name)), alike)
                for name, ids in found.items()
                if not ids
            }
            found |= {
                name: self._seen_from_above(spelled(name), alike)
                for name, ids in found.items()
                if not ids
            }
        return found

    def _covering(
        self, held: tuple[np.ndarray, list[Source]], spell: Callable[[str], str]
    ) -> Callable[[str], set[int]]:
        """What gives the ids at a place, below a folder, or of a pattern. spell: how names are compared."""
        # names and ids of the files in a folder
        inside: dict[str, list[tuple[str, int]]] = defaultdict(list)
        below: dict[str, list[str]] = defaultdict(list)  # folders below a place, as in `inside`
        files: dict[str, set[int]] = defaultdict(set)
        records, sources = held
        for one, (file, _) in zip(records["id"].tolist(), sources, strict=True):
            folder, slash, name = (file or "").rpartition("/")
            inside[folder + slash].append((spell(name), one))
        places = {folder: PurePosixPath(spell(str(self.place(folder)))) for folder in inside}
        for folder, path in places.items():
            for above in (path, *path.parents):
                below[str(above)].append(folder)
            for name, one in inside[folder]:
                if name:
                    files[str(path / name)].add(one)

        def covered(place: str) -> set[int]:
            place = spell(place)
            if place in files:
                return files[place]
            if place in below or not set(place) & SPECIAL:
                return {
                    one for folder in below.get(place, ()) for name, one in inside[folder] if name
                }
            if len(parts := PurePosixPath(place).parts) > MOST_PARTS:
                raise ValueError(
                    f"{place[:80]!r}…: a pattern may have at most {MOST_PARTS} parts between slashes"
                )
            *folders, last = (*parts, "*") if parts[-1] == "**" else parts
            fitting = [
                own for folder, own in inside.items() if _fits(folders, places[folder].parts)
            ]
            return {one for own in fitting for name, one in own if name and fnmatchcase(name, last)}

        return covered

    def _seen_from_above(self, name: str, ids_from: Callable[[str], set[int]]) -> set[int]:
        """The ids of `data/pets/1.png` where the root is `/home/me/data/pets`, wherever the command is run.

        Raises AmbiguousFileError where two folders above the root see something there.
        """
        if os.path.isabs(name):  # noqa: PTH117 (as the memory writes it)
            return set()
        seen: dict[str, set[int]] = {}
        for above in self._root.parents:
            place = posixpath.normpath(posixpath.join(above, printable(name)))
            if Path(place).is_relative_to(self._root):
                seen |= {place: ids_from(place)}
        seen = {place: ids for place, ids in seen.items() if ids}
        if len(seen) > 1:
            raise AmbiguousFileError(seen)
        return set().union(*seen.values())

    def hint(self, missing: Sequence[str]) -> str:
        """Which names of files are near, and in which form a file is named. Empty where nothing is missing."""
        if not missing:
            return ""
        files = {file for file, _ in self.held()[1] if file}
        names = files | {str(self.place(file)) for file in files}
        near = near_words("file", missing, names)
        root = f" from {self._root} on," if self._root.parts else ""
        return (
            f"{near}Source files are named{root} as `list` shows them, by their absolute path, or by"
            " a path from here."
        )

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


def near_words(kind: str, missing: Iterable[str], held: Iterable[str]) -> str:
    """Which held names are near the first ten that are missing, in quotes, with a blank at the end."""
    asked = [*missing][:10]
    near = near_names(asked, held) if asked else {}
    words = [f"{name!r}: {' or '.join(map(repr, names))}" for name, names in near.items() if names]
    return f"Near names of a {kind} are, for {'; for '.join(words)}. " if words else ""


def _fits(pattern: Sequence[str], folder: Sequence[str]) -> bool:
    """Whether a folder is one that the pattern stands for, both as the parts of their paths."""
    ends = {0}  # how many parts of the folder the pattern can stand for, up to here
    for part in pattern:
        if part == "**":
            ends = {*range(min(ends), len(folder) + 1)} if ends else ends
        else:
            ends = {end + 1 for end in ends if end < len(folder) and fnmatchcase(folder[end], part)}
    return len(folder) in ends
