"""Which samples a name means. Source file and unit are stored with a row, and forgotten with it."""

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

from munkey.data.intake.unit_names import similar_names
from munkey.data.source import escape_undecodable
from munkey.deploy.errors import AmbiguousFileError
from munkey.deploy.store.rows import Source
from munkey.deploy.store.store import Store

T = TypeVar("T")
MOST_PARTS = 64  # of a pattern, with its folders
LONGEST = 4096  # characters of a name or a pattern, as of a path in Linux
SPECIAL = frozenset("*?[")  # characters that turn a name into a pattern


class MemoryRow(NamedTuple):
    """A sample in the memory; None for anything unknown.

    label: its class. file: where it lay. unit: its person, device, …. added: when, in UTC.
    """

    id: int
    label: str | None
    file: str | None
    unit: str | None
    added: datetime


class AddedSamples(NamedTuple):
    """Samples that were added. ids: (N,) int64. identical: earlier exact copies, by new id."""

    ids: np.ndarray
    identical: dict[int, tuple[int, ...]]


@dataclass(frozen=True)
class Selection:
    """The samples that names mean.

    Attributes
    ----------
    ids : ndarray of int64, shape (N,)
        Ids of the samples, ascending.
    missing : tuple of str
        All names that no sample has.
    classes : dict of str to int
        How many samples of each class there are.
    hint : str
        Names close to the missing ones, in words.
    """

    ids: np.ndarray
    missing: tuple[str, ...]
    classes: dict[str, int]
    hint: str = ""


def as_list(kind: str, names: Iterable[T]) -> list[T]:
    """Turn names into a list. Raises ValueError for a single text, which would become letters."""
    if isinstance(names, str | bytes | os.PathLike):
        raise ValueError(
            f"{kind} must be a list, but {str(names)!r} is not one; put it into brackets"
        )
    return list(names)


def normalize_path(path: str) -> str:
    """Bring a path to Unicode form NFC, without blanks around its parts. Macs write NFD."""
    return "/".join(part.strip() for part in unicodedata.normalize("NFC", path).split("/"))


def location(file: str | os.PathLike[str]) -> str:
    """The place of a file, as a memory stores it: an absolute path without `..`, printable."""
    return escape_undecodable(os.path.abspath(file))  # noqa: PTH100 (Path.resolve would follow links)


class SourceFiles:
    """The source files of a model's memory.

    A file is stored as the path that was given, or relative to `root`, the folder of the data set.
    """

    def __init__(self, store: Store, root: str | None) -> None:
        self._store = store
        self._root = Path(location(root)) if root else Path()

    def place(self, file: str | None) -> str | None:
        """Where a file lay when it was read, according to the memory."""
        if file is None:
            return None
        return posixpath.normpath(posixpath.join(self._root, file))

    def records(self) -> tuple[np.ndarray, list[Source]]:
        """The records (N,) of all samples in the memory, with file and unit of each."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live)
            sources = self._store.sources_of(rows)
            records = view.records[rows]
            live = view.live[rows]  # read last: what is deleted meanwhile reads as zero
            return records[live], list(compress(sources, live))

    def ids_by_name(self, files: Iterable[str | Path]) -> dict[str, set[int]]:
        """Find the ids that each name means; an empty set for a name without samples.

        A name is a file as the memory stores it, or where the file lies; a folder, for all files
        below it; or a pattern as in a shell, with `**` for any folders. A name without samples is
        looked up once more as seen from the data set's folder and those above it, then in another
        Unicode form. A data set without a root has the deepest folder that holds all its files.
        Only the memory is asked, not the disk. Raises AmbiguousFileError if a name means two files.
        """
        names = [str(file) for file in as_list("files", files)]
        if "" in names:
            raise ValueError("one of the files has an empty name")
        for name in names:
            if len(name) > LONGEST:
                raise ValueError(
                    f"{name[:80]!r}…: has {len(name):,} characters; a name or a pattern may have at"
                    f" most {LONGEST:,}"
                )
        ids_by_name = {name: self._resolve(Path(name), self._ids_from) for name in names}
        if all(ids_by_name.values()):
            return ids_by_name
        records = self.records()
        folder = self._folder_of_all(records[1])
        spellings: list[Callable[[str], str]] = [str, normalize_path]
        for spell in spellings:
            if all(ids_by_name.values()):
                break
            ids_below = FileTree(self, records, spell).ids_below
            for name in names:
                if not ids_by_name[name]:
                    ids_by_name[name] = self._resolve(Path(spell(name)), ids_below)
            for name in names:
                if not ids_by_name[name]:
                    ids_by_name[name] = self._resolve_from_above(spell(name), folder, ids_below)
        return ids_by_name

    def _folder_of_all(self, sources: Sequence[Source]) -> Path:
        """The root, or else the deepest folder that holds all files with an absolute path."""
        if self._root.parts:
            return self._root
        folders = {posixpath.dirname(file) for file, _ in sources if file and file.startswith("/")}
        return Path(posixpath.commonpath(folders)) if folders else Path()

    def _resolve_from_above(
        self, name: str, folder: Path, ids_from: Callable[[str], set[int]]
    ) -> set[int]:
        """Find `data/pets/1.png` if the folder is `/home/me/data/pets`, wherever the command runs.

        Raises AmbiguousFileError if the name has samples as seen from two folders.
        """
        is_here = not Path(name).parts  # `.` is the current folder
        if is_here or os.path.isabs(name):  # noqa: PTH117 (as the memory writes it)
            return set()
        ids_by_place: dict[str, set[int]] = {}
        for parent in (folder, *folder.parents):
            place = posixpath.normpath(posixpath.join(parent, escape_undecodable(name)))
            if not Path(place).is_relative_to(folder):
                continue
            ids = ids_from(place)
            if ids:
                ids_by_place[place] = ids
        if len(ids_by_place) > 1:
            raise AmbiguousFileError(ids_by_place)
        return set().union(*ids_by_place.values())

    def hint(self, missing: Sequence[str]) -> str:
        """Names of files close to the missing ones, and how to name a file; empty without any."""
        if not missing:
            return ""
        files = {file for file, _ in self.records()[1] if file}
        names = files | {str(self.place(file)) for file in files}
        near = suggest_near_names("file", missing, names)
        root = f" from {self._root} on," if self._root.parts else ""
        return (
            f"{near}Source files are named{root} as `list` shows them, by their absolute path, or by"
            " a path from here."
        )

    def _ids_from(self, place: str) -> set[int]:
        """The ids of the samples that came from the file at this place."""
        names = {place}
        if Path(place).is_relative_to(self._root):
            names.add(Path(place).relative_to(self._root).as_posix())
        return {sample_id for name in names for sample_id in self._store.ids_from(name).tolist()}

    def _resolve(self, file: Path, ids_from: Callable[[str], set[int]]) -> set[int]:
        """Find the ids of a file by its name in the memory, or by where it lies now."""
        name = str(self._root / escape_undecodable(file.as_posix()))
        place = location(file)
        ids_by_name = ids_from(name) if file.parts else set()  # `.` is a place
        ids_by_place = ids_from(place)
        if ids_by_place and not ids_by_name <= ids_by_place:
            raise AmbiguousFileError({name: ids_by_name, place: ids_by_place})
        return ids_by_name | ids_by_place


class FileTree:
    """The source files of all samples as a tree of folders, for folders and patterns.

    spell: brings two spellings of one path to the same text before they are compared.
    """

    def __init__(
        self,
        files: SourceFiles,
        records: tuple[np.ndarray, list[Source]],
        spell: Callable[[str], str],
    ) -> None:
        self._spell = spell
        # Names and ids of the files directly in a folder. Folders are as the memory writes them.
        self._files_in: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for sample_id, (file, _) in zip(records[0]["id"].tolist(), records[1], strict=True):
            folder, slash, name = (file or "").rpartition("/")
            self._files_in[folder + slash].append((spell(name), sample_id))
        self._places = {
            folder: PurePosixPath(spell(str(files.place(folder)))) for folder in self._files_in
        }
        self._folders_below: dict[str, list[str]] = defaultdict(list)  # by place
        self._ids_at: dict[str, set[int]] = defaultdict(set)  # by the place of a file
        for folder, place in self._places.items():
            for parent in (place, *place.parents):
                self._folders_below[str(parent)].append(folder)
            for name, sample_id in self._files_in[folder]:
                if name:
                    self._ids_at[str(place / name)].add(sample_id)

    def ids_below(self, place: str) -> set[int]:
        """The ids of the file at a place, of all files below a folder, or of a pattern."""
        place = self._spell(place)
        if place in self._ids_at:
            return self._ids_at[place]
        if place in self._folders_below or not set(place) & SPECIAL:
            return {
                sample_id
                for folder in self._folders_below.get(place, ())
                for name, sample_id in self._files_in[folder]
                if name
            }
        parts = PurePosixPath(place).parts
        if len(parts) > MOST_PARTS:
            raise ValueError(
                f"{place[:80]!r}…: a pattern may have at most {MOST_PARTS} parts between slashes"
            )
        if parts[-1] == "**":
            parts = (*parts, "*")
        *folder_parts, file_pattern = parts
        ids = set()
        for folder, files in self._files_in.items():
            if not _matches_folder(folder_parts, self._places[folder].parts):
                continue
            for name, sample_id in files:
                if name and fnmatchcase(name, file_pattern):
                    ids.add(sample_id)
        return ids


def suggest_near_names(kind: str, missing: Iterable[str], present: Iterable[str]) -> str:
    """Suggest present names close to the first ten missing ones. The text ends with a blank."""
    queries = [*missing][:10]
    if not queries:
        return ""
    suggestions = [
        f"{name!r}: {' or '.join(map(repr, names))}"
        for name, names in similar_names(queries, present).items()
        if names
    ]
    if not suggestions:
        return ""
    return f"Near names of a {kind} are, for {'; for '.join(suggestions)}. "


def _matches_folder(pattern: Sequence[str], folder: Sequence[str]) -> bool:
    """Whether a pattern matches a folder, both as the parts of their paths."""
    # After each part of the pattern: how many parts of the folder it can have matched.
    ends = {0}
    for part in pattern:
        if not ends:
            return False
        if part == "**":
            ends = set(range(min(ends), len(folder) + 1))
        else:
            ends = {end + 1 for end in ends if end < len(folder) and fnmatchcase(folder[end], part)}
    return len(folder) in ends
