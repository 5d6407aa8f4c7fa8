"""Find samples by source file. The memory stores the file of each sample and forgets it, too."""

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
MAX_PATTERN_PARTS = 64  # maximum number of path components in a pattern
MAX_NAME_LENGTH = 4096  # maximum number of characters in a name or pattern, as in Linux paths
PATTERN_CHARACTERS = frozenset("*?[")  # a name with any of these characters is a pattern


class MemoryRow(NamedTuple):
    """A sample in the memory.

    label: its class. file: its source file. unit: the person, device, or other unit that it belongs
    to. Each of these is None if unknown. added: when it was added, in UTC.
    """

    id: int
    label: str | None
    file: str | None
    unit: str | None
    added: datetime


class AddedSamples(NamedTuple):
    """Samples that were added.

    ids: (N,) int64. identical: ids of earlier exact copies, by new id. A new sample without such
    copies is not listed.
    """

    ids: np.ndarray
    identical: dict[int, tuple[int, ...]]


@dataclass(frozen=True)
class Selection:
    """The samples that were selected by name.

    Attributes
    ----------
    ids : ndarray of int64, shape (N,)
        Ids of the samples, in ascending order.
    missing : tuple of str
        All ids and names that match no sample.
    classes : dict of str to int
        Number of selected samples in each class.
    hint : str
        Sentences that suggest names similar to the missing ones; may be empty.
    """

    ids: np.ndarray
    missing: tuple[str, ...]
    classes: dict[str, int]
    hint: str = ""


def require_list(kind: str, names: Iterable[T]) -> list[T]:
    """Convert names to a list.

    Raises ValueError for a single string, which would be split into characters, or a single path.
    kind: the noun for the names in the message, such as `units`.
    """
    if isinstance(names, str | bytes | os.PathLike):
        raise ValueError(
            f"{kind} must be a list, but {str(names)!r} is not one; wrap it in brackets"
        )
    return list(names)


def normalize_path(path: str) -> str:
    """Return a path in Unicode form NFC (macOS writes NFD), without spaces around its parts."""
    parts = unicodedata.normalize("NFC", path).split("/")
    return "/".join(part.strip() for part in parts)


def locate_file(file: str | os.PathLike[str]) -> str:
    """Return a file's path as a memory stores it: absolute and printable."""
    return escape_undecodable(os.path.abspath(file))  # noqa: PTH100 (Path.resolve would follow links)


class SourceFiles:
    """The source files of the samples in a memory.

    The memory names a file by its absolute path, or relative to `root`, the folder of the data set.
    """

    def __init__(self, store: Store, root: str | None) -> None:
        self._store = store
        self._root = Path(locate_file(root)) if root else Path()

    def locate(self, file: str | None) -> str | None:
        """Return the path that a file was read from, given its name in the memory, or None."""
        if file is None:
            return None
        return posixpath.normpath(posixpath.join(self._root, file))

    def read_records(self) -> tuple[np.ndarray, list[Source]]:
        """Read the record (N,) and the source, a file and a unit, of each sample in the memory."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live)
            sources = self._store.read_sources(rows)
            records = view.records[rows]
            is_live = view.live[rows]  # read last: a concurrently deleted row reads as zero
            return records[is_live], list(compress(sources, is_live))

    def find_ids_by_name(self, files: Iterable[str | Path]) -> dict[str, set[int]]:
        """Return the ids of the samples that match each name, by name.

        A name can be a file, by its name in the memory or by its path; a folder, for all files
        below it; or a shell pattern, in which `**` matches any number of folders.

        If a name matches no sample, it is looked up again relative to the folder of the data set
        and its parents, and then in another Unicode form. If the data set has no root, its folder
        is the deepest one that contains all of its files. Names are looked up in the memory, not on
        the disk. A name that still matches nothing gets an empty set.

        Raises AmbiguousFileError if a name matches more than one file, and ValueError if it is
        empty or too long.
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
        # The ledger finds most names by its indexes. Only the other names need all records.
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
        """Return the root or, without one, the deepest folder that contains all absolute paths.

        Returns an empty path if no path is absolute.
        """
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
        """Return the ids for a relative name, resolved against a folder and its parents.

        For example, `data/pets/1.png` is found in the folder `/home/me/data/pets`, whatever the
        current folder is. find_ids_by_source: returns the ids for a path. Raises AmbiguousFileError
        if the name matches samples in more than one place.
        """
        is_current_folder = not Path(name).parts  # as for `.`
        if is_current_folder or os.path.isabs(name):  # noqa: PTH117 (as the memory writes it)
            return set()
        ids_by_path: dict[str, set[int]] = {}
        for parent in (folder, *folder.parents):
            path = posixpath.normpath(posixpath.join(parent, escape_undecodable(name)))
            if not Path(path).is_relative_to(folder):
                continue
            ids = find_ids_by_source(path)
            if ids:
                ids_by_path[path] = ids
        if len(ids_by_path) > 1:
            raise AmbiguousFileError(ids_by_path)
        return set().union(*ids_by_path.values())

    def suggest_names(self, missing: Sequence[str]) -> str:
        """Return sentences that suggest names similar to the missing ones, and explain file names.

        Returns an empty string if none are missing.
        """
        if not missing:
            return ""
        files = {file for file, _ in self.read_records()[1] if file}
        names = files | {str(self.locate(file)) for file in files}
        suggestion = suggest_near_names("file", missing, names)
        below_root = ""
        if self._root.parts:
            below_root = f" by its path below {self._root},"
        return (
            f"{suggestion}Name a source file by the path that `list` shows,{below_root} or by its path"
            " from the current folder."
        )

    def _find_ids(self, path: str) -> set[int]:
        """Return the ids of the samples from the file at this path."""
        names = {path}
        if Path(path).is_relative_to(self._root):
            names.add(Path(path).relative_to(self._root).as_posix())
        ids: set[int] = set()
        for name in names:
            ids.update(self._store.find_ids_by_source(name).tolist())
        return ids

    def _resolve(self, file: Path, find_ids_by_source: Callable[[str], set[int]]) -> set[int]:
        """Return the ids of a file, by its name in the memory or by its current path.

        find_ids_by_source: returns the ids for a path. Raises AmbiguousFileError if the two ways
        lead to different files.
        """
        name = str(self._root / escape_undecodable(file.as_posix()))
        path = locate_file(file)
        ids_by_name: set[int] = set()
        if file.parts:  # `.` is the current folder, not the root of the data set
            ids_by_name = find_ids_by_source(name)
        ids_by_path = find_ids_by_source(path)
        if ids_by_path and not ids_by_name <= ids_by_path:
            raise AmbiguousFileError({name: ids_by_name, path: ids_by_path})
        return ids_by_name | ids_by_path


class FileTree:
    """The source files of all samples as a tree of folders, to look up folders and patterns.

    records: as `SourceFiles.read_records` returns them. spell: normalizes the spelling of paths
    before they are compared.
    """

    def __init__(
        self,
        files: SourceFiles,
        records: tuple[np.ndarray, list[Source]],
        spell: Callable[[str], str],
    ) -> None:
        self._spell = spell
        # File name and id of the samples directly in each folder. Folders are named as in the
        # memory. A sample without a file has an empty file name.
        self._files_by_folder: dict[str, list[tuple[str, int]]] = defaultdict(list)
        sample_records, sources = records
        for sample_id, (file, _) in zip(sample_records["id"].tolist(), sources, strict=True):
            folder, slash, name = (file or "").rpartition("/")
            self._files_by_folder[folder + slash].append((spell(name), sample_id))
        self._paths: dict[str, PurePosixPath] = {}  # the path of each folder
        # By path: the folder there, if any, and all folders below it.
        self._subfolders: dict[str, list[str]] = defaultdict(list)
        self._ids_by_path: dict[str, set[int]] = defaultdict(set)  # by path of the file
        for folder, named_ids in self._files_by_folder.items():
            path = PurePosixPath(spell(str(files.locate(folder))))
            self._paths[folder] = path
            for parent in (path, *path.parents):
                self._subfolders[str(parent)].append(folder)
            for name, sample_id in named_ids:
                if name:
                    self._ids_by_path[str(path / name)].add(sample_id)

    def find_ids_below(self, path: str) -> set[int]:
        """Return the ids of a file, of all files below a folder, or of all that match a pattern."""
        path = self._spell(path)
        if path in self._ids_by_path:
            return self._ids_by_path[path]
        may_be_pattern = not PATTERN_CHARACTERS.isdisjoint(path)
        # The name of a folder may contain brackets, too. Then it is not a pattern.
        if path in self._subfolders or not may_be_pattern:
            return self._find_ids_below(path)
        return self._match_pattern(path)

    def _find_ids_below(self, path: str) -> set[int]:
        """Return the ids of all files below a folder."""
        ids = set()
        for folder in self._subfolders.get(path, ()):
            for name, sample_id in self._files_by_folder[folder]:
                if name:  # empty for samples without a file
                    ids.add(sample_id)
        return ids

    def _match_pattern(self, pattern: str) -> set[int]:
        """Return the ids of the files that match a pattern. Raises ValueError if it is too long."""
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
            if not _matches_folder(folder_parts, self._paths[folder].parts):
                continue
            for name, sample_id in files:
                if name and fnmatchcase(name, file_pattern):
                    ids.add(sample_id)
        return ids


def suggest_near_names(kind: str, missing: Iterable[str], present: Iterable[str]) -> str:
    """Return a sentence that suggests names similar to the first ten missing ones.

    The sentence ends with a space, so that another one can follow. kind: the noun for a name. present:
    the names to choose from. Returns an empty string if none of them is similar.
    """
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
    """Return whether a pattern matches a folder. Both are given by the parts of their paths."""
    # The numbers of leading parts of the folder that the pattern so far can match. There may be
    # several of them after `**`, which matches any number of parts. The time is at most
    # proportional to the product of both lengths.
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
