"""Find samples by source file. File and unit are stored with a row, and forgotten with it."""

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

from munkey.data.intake.unit_names import find_similar_names
from munkey.data.source import escape_undecodable
from munkey.deploy.errors import AmbiguousFileError
from munkey.deploy.store.rows import Source
from munkey.deploy.store.store import Store

T = TypeVar("T")
MAX_PATTERN_PARTS = 64  # path components of a pattern
MAX_NAME_LENGTH = 4096  # characters of a name or a pattern, as for paths in Linux
SPECIAL = frozenset("*?[")  # characters that turn a name into a pattern


class MemoryRow(NamedTuple):
    """A sample in the memory.

    label: its class. file: its source file. unit: its person, device, …. These are None if unknown.
    added: when it was added, in UTC.
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
    """The samples that were selected by name.

    Attributes
    ----------
    ids : ndarray of int64, shape (N,)
        Ids of the samples, ascending.
    missing : tuple of str
        All names that no sample has.
    classes : dict of str to int
        Number of samples in each class.
    hint : str
        A sentence with names similar to the missing ones.
    """

    ids: np.ndarray
    missing: tuple[str, ...]
    classes: dict[str, int]
    hint: str = ""


def require_list(kind: str, names: Iterable[T]) -> list[T]:
    """Convert names to a list. Raises ValueError for a string, which would become letters."""
    if isinstance(names, str | bytes | os.PathLike):
        raise ValueError(
            f"{kind} must be a list, but {str(names)!r} is not one; put it into brackets"
        )
    return list(names)


def normalize_path(path: str) -> str:
    """Normalize a path to Unicode form NFC, without spaces around its parts. macOS writes NFD."""
    parts = unicodedata.normalize("NFC", path).split("/")
    return "/".join(part.strip() for part in parts)


def locate_file(file: str | os.PathLike[str]) -> str:
    """Return a file's path as a memory stores it: absolute and printable."""
    return escape_undecodable(os.path.abspath(file))  # noqa: PTH100 (Path.resolve would follow links)


class SourceFiles:
    """The source files of a model's memory.

    A file is stored as the given path, or relative to `root`, the data set's folder.
    """

    def __init__(self, store: Store, root: str | None) -> None:
        self._store = store
        self._root = Path(locate_file(root)) if root else Path()

    def locate(self, file: str | None) -> str | None:
        """Return the path of a file when it was read, from its name in the memory."""
        if file is None:
            return None
        return posixpath.normpath(posixpath.join(self._root, file))

    def read_records(self) -> tuple[np.ndarray, list[Source]]:
        """Read the records (N,) of all samples in the memory, with file and unit of each."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live)
            sources = self._store.read_sources(rows)
            records = view.records[rows]
            is_live = view.live[rows]  # read last: a concurrently deleted row reads as zero
            return records[is_live], list(compress(sources, is_live))

    def find_ids_by_name(self, files: Iterable[str | Path]) -> dict[str, set[int]]:
        """Find the ids for each name; an empty set for a name without samples.

        A name is a file, by its name in the memory or its path; a folder, for all files below it;
        or a shell pattern, with `**` for any folders. A name without samples is looked up again
        relative to the data set's folder and its parents, then in another Unicode form. If the data
        set has no root, its folder is the deepest one that contains all its files. Only the memory
        is searched, not the disk. Raises AmbiguousFileError if a name matches two files.
        """
        names = [str(file) for file in require_list("files", files)]
        if "" in names:
            raise ValueError("one of the files has an empty name")
        for name in names:
            if len(name) > MAX_NAME_LENGTH:
                raise ValueError(
                    f"{name[:80]!r}…: has {len(name):,} characters; a name or a pattern may have at"
                    f" most {MAX_NAME_LENGTH:,}"
                )
        # Most names are in the ledger's indexes; only the others need all records.
        ids_by_name = {name: self._resolve(Path(name), self._find_ids) for name in names}
        if all(ids_by_name.values()):
            return ids_by_name
        records = self.read_records()
        folder = self._find_common_folder(records[1])
        spellings: list[Callable[[str], str]] = [str, normalize_path]
        for spell in spellings:
            if all(ids_by_name.values()):
                break
            find_ids_below = FileTree(self, records, spell).find_ids_below
            for name in names:
                if not ids_by_name[name]:
                    ids_by_name[name] = self._resolve(Path(spell(name)), find_ids_below)
            for name in names:
                if not ids_by_name[name]:
                    ids_by_name[name] = self._resolve_from_above(
                        spell(name), folder, find_ids_below
                    )
        return ids_by_name

    def _find_common_folder(self, sources: Sequence[Source]) -> Path:
        """Return the root, or else the deepest folder that contains all absolute paths."""
        if self._root.parts:
            return self._root
        folders = set()
        for file, _ in sources:
            if file and file.startswith("/"):
                folders.add(posixpath.dirname(file))
        if not folders:
            return Path()
        return Path(posixpath.commonpath(folders))

    def _resolve_from_above(
        self, name: str, folder: Path, find_ids_by_source: Callable[[str], set[int]]
    ) -> set[int]:
        """Resolve a relative name against a folder and its parents.

        For example, `data/pets/1.png` is found in the folder `/home/me/data/pets`, whatever the
        current folder is. Raises AmbiguousFileError if the name has samples in two places.
        """
        is_here = not Path(name).parts  # `.` is the current folder
        if is_here or os.path.isabs(name):  # noqa: PTH117 (as the memory writes it)
            return set()
        ids_by_place: dict[str, set[int]] = {}
        for parent in (folder, *folder.parents):
            place = posixpath.normpath(posixpath.join(parent, escape_undecodable(name)))
            if not Path(place).is_relative_to(folder):
                continue
            ids = find_ids_by_source(place)
            if ids:
                ids_by_place[place] = ids
        if len(ids_by_place) > 1:
            raise AmbiguousFileError(ids_by_place)
        return set().union(*ids_by_place.values())

    def suggest_names(self, missing: Sequence[str]) -> str:
        """Suggest file names similar to the missing ones, and explain how files are named.

        Returns an empty string if none are missing.
        """
        if not missing:
            return ""
        files = {file for file, _ in self.read_records()[1] if file}
        names = files | {str(self.locate(file)) for file in files}
        suggestion = suggest_near_names("file", missing, names)
        root = ""
        if self._root.parts:
            root = f" from {self._root} on,"
        return (
            f"{suggestion}Source files are named{root} as `list` shows them, by their absolute path,"
            " or by a path from here."
        )

    def _find_ids(self, place: str) -> set[int]:
        """Find the ids of the samples from the file at this path."""
        names = {place}
        if Path(place).is_relative_to(self._root):
            names.add(Path(place).relative_to(self._root).as_posix())
        ids: set[int] = set()
        for name in names:
            ids.update(self._store.find_ids_by_source(name).tolist())
        return ids

    def _resolve(self, file: Path, find_ids_by_source: Callable[[str], set[int]]) -> set[int]:
        """Find the ids of a file by its name in the memory, or by its current path."""
        name = str(self._root / escape_undecodable(file.as_posix()))
        place = locate_file(file)
        ids_by_name: set[int] = set()
        if file.parts:  # `.` is the current folder, not the root of the data set
            ids_by_name = find_ids_by_source(name)
        ids_by_place = find_ids_by_source(place)
        if ids_by_place and not ids_by_name <= ids_by_place:
            raise AmbiguousFileError({name: ids_by_name, place: ids_by_place})
        return ids_by_name | ids_by_place


class FileTree:
    """The source files of all samples as a tree of folders, for folders and patterns.

    spell: normalizes paths before they are compared.
    """

    def __init__(
        self,
        files: SourceFiles,
        records: tuple[np.ndarray, list[Source]],
        spell: Callable[[str], str],
    ) -> None:
        self._spell = spell
        # Names and ids of the files directly in each folder. Folders are named as in the memory; a
        # sample without a file has an empty name.
        self._files_by_folder: dict[str, list[tuple[str, int]]] = defaultdict(list)
        sample_records, sources = records
        for sample_id, (file, _) in zip(sample_records["id"].tolist(), sources, strict=True):
            folder, slash, name = (file or "").rpartition("/")
            self._files_by_folder[folder + slash].append((spell(name), sample_id))
        self._places: dict[str, PurePosixPath] = {}  # path of each folder
        self._subfolders: dict[str, list[str]] = defaultdict(list)  # all folders below a path
        self._ids_by_place: dict[str, set[int]] = defaultdict(set)  # by path of a file
        for folder, named_ids in self._files_by_folder.items():
            place = PurePosixPath(spell(str(files.locate(folder))))
            self._places[folder] = place
            for parent in (place, *place.parents):
                self._subfolders[str(parent)].append(folder)
            for name, sample_id in named_ids:
                if name:
                    self._ids_by_place[str(place / name)].add(sample_id)

    def find_ids_below(self, place: str) -> set[int]:
        """Find the ids of a file, of all files below a folder, or of files that match a pattern."""
        place = self._spell(place)
        if place in self._ids_by_place:
            return self._ids_by_place[place]
        is_pattern = not SPECIAL.isdisjoint(place)
        # A folder's name may contain brackets; then it is not a pattern.
        if place in self._subfolders or not is_pattern:
            return self._find_ids_below(place)
        return self._match_pattern(place)

    def _find_ids_below(self, place: str) -> set[int]:
        """List the ids of all files below a folder."""
        ids = set()
        for folder in self._subfolders.get(place, ()):
            for name, sample_id in self._files_by_folder[folder]:
                if name:  # empty for samples without a file
                    ids.add(sample_id)
        return ids

    def _match_pattern(self, pattern: str) -> set[int]:
        """Find the ids of the files that a pattern matches."""
        parts = PurePosixPath(pattern).parts
        if len(parts) > MAX_PATTERN_PARTS:
            raise ValueError(
                f"{pattern[:80]!r}…: a pattern may have at most {MAX_PATTERN_PARTS} parts between"
                " slashes"
            )
        if parts[-1] == "**":
            parts = (*parts, "*")  # any file in any folder
        *folder_parts, file_pattern = parts
        ids = set()
        for folder, files in self._files_by_folder.items():
            if not _matches_folder(folder_parts, self._places[folder].parts):
                continue
            for name, sample_id in files:
                if name and fnmatchcase(name, file_pattern):
                    ids.add(sample_id)
        return ids


def suggest_near_names(kind: str, missing: Iterable[str], present: Iterable[str]) -> str:
    """Suggest present names similar to the first ten missing ones. The text ends with a space."""
    queries = [*missing][:10]
    if not queries:
        return ""
    suggestions = []
    for name, near_names in find_similar_names(queries, present).items():
        if near_names:
            suggestions.append(f"{name!r}: {' or '.join(map(repr, near_names))}")
    if not suggestions:
        return ""
    return f"Similar {kind} names for {'; for '.join(suggestions)}. "


def _matches_folder(pattern: Sequence[str], folder: Sequence[str]) -> bool:
    """Return whether a pattern matches a folder, both as the parts of their paths."""
    # How many of the folder's parts the pattern so far can match. After `**`, which matches any
    # number of parts, several counts are possible. The time is at most the product of both lengths.
    matched_counts = {0}
    for part in pattern:
        if not matched_counts:
            return False
        if part == "**":
            matched_counts = set(range(min(matched_counts), len(folder) + 1))
            continue
        next_counts = set()
        for count in matched_counts:
            if count < len(folder) and fnmatchcase(folder[count], part):
                next_counts.add(count + 1)
        matched_counts = next_counts
    return len(folder) in matched_counts
