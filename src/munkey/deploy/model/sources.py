"""Find samples by source file. The memory stores the file of each sample and forgets it, too."""

import glob
import os
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

import numpy as np

from munkey.data.intake.unit_names import find_similar_names, normalize_path
from munkey.data.source import escape_undecodable
from munkey.deploy.errors import AmbiguousFileError
from munkey.memory.memory import Memory

T = TypeVar("T")
MAX_PATTERN_PARTS = 64  # maximum number of path components in a pattern
MAX_NAME_LENGTH = 4096  # maximum number of characters in a name or pattern, as in Linux paths
# A name that starts with this is a pattern, as in glob:cats/*.png. No other name is one, whatever
# characters it has: browsers and scanners write names such as IMG[1].png.
PATTERN_PREFIX = "glob:"
PATTERN_CHARACTERS = frozenset("*?[")


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


def is_pattern(name: str | Path) -> bool:
    """Return whether the name of a file is a pattern."""
    return str(name).startswith(PATTERN_PREFIX)


def locate_file(file: str | os.PathLike[str]) -> str:
    """Return a file's path as a memory stores it: absolute and printable."""
    return escape_undecodable(os.path.abspath(file))  # noqa: PTH100 (Path.resolve would follow links)


class SourceFiles:
    """The source files of the samples in a memory.

    The memory names a file by its absolute path, or relative to `root`, the folder of the data set.
    """

    def __init__(self, memory: Memory, root: str | None) -> None:
        self._memory = memory
        self._root = Path(locate_file(root)) if root else Path()

    def locate(self, file: str | None) -> str | None:
        """Return the path that a file was read from, given its name in the memory, or None."""
        if file is None:
            return None
        return posixpath.normpath(posixpath.join(self._root, file))

    def iterate_files(self) -> Iterator[tuple[str | None, int]]:
        """Yield the source file and the id of each sample."""
        rows = self._memory.live_rows
        files = self._memory.columns.files[rows]
        return zip(files, self._memory.ids[rows].tolist(), strict=True)

    def find_ids_by_name(self, files: Iterable[str | Path]) -> dict[str, set[int]]:
        """Return the ids of the samples that match each name, by name.

        A name can be a file, by its name in the memory or by its path; a folder, for all files
        below it; or, after `glob:`, a shell pattern, in which `**` matches any number of folders.

        A relative name is looked up in the current folder, in the folder of the data set, and in
        the parents of that folder. Names are looked up in the memory, not on the disk. Their Unicode
        form and blanks around their parts make no difference, unless a file is named exactly so. A
        name that matches nothing gets an empty set.

        Raises AmbiguousFileError if a name matches different samples in different folders, and
        ValueError if it is empty or too long.
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
        ids_by_name: dict[str, set[int]] = {name: set() for name in names}
        ids_by_path = self._find_files([name for name in names if not is_pattern(name)])
        for name in names:
            if not is_pattern(name):
                ids_by_name[name] = self._resolve(name, ids_by_path.__getitem__)
        # Most names are those of files. Only the others need a tree of all files.
        if all(ids_by_name.values()):
            return ids_by_name
        missing = [name for name, ids in ids_by_name.items() if not ids]
        tree = FileTree(self)
        for name in missing:
            if is_pattern(name):
                pattern = normalize_path(name.removeprefix(PATTERN_PREFIX))
                ids_by_name[name] = self._resolve(pattern, tree.match_pattern, glob.escape)
            else:
                ids_by_name[name] = self._resolve(normalize_path(name), tree.find_ids_below)
        return ids_by_name

    def _resolve(
        self,
        name: str,
        find_ids: Callable[[str], set[int]],
        quote: Callable[[str], str] = str,
    ) -> set[int]:
        """Return the ids that `find_ids` finds at the paths that a name can mean.

        quote: escapes a folder's name if `name` is a pattern. Raises AmbiguousFileError if several
        paths lead to different samples.
        """
        ids_by_path: dict[str, set[int]] = {}
        for path in self._list_paths(name, quote):
            ids = find_ids(path)
            if ids and ids not in ids_by_path.values():
                ids_by_path[path] = ids
        if len(ids_by_path) > 1:
            # Once the samples at the first were deleted, the name would mean those at another.
            raise AmbiguousFileError(ids_by_path)
        return set().union(*ids_by_path.values())

    def _list_paths(self, name: str, quote: Callable[[str], str]) -> list[str]:
        """Return the paths that a name can mean: from the data set's folder, from above, from here."""
        paths = []
        relative_name = Path(escape_undecodable(name))
        if relative_name.parts:  # `.` is the current folder, not the root of the data set
            root = Path(quote(str(self._root)))
            for folder in (root, *root.parents):
                path = Path(posixpath.normpath(folder / relative_name))
                if path.is_relative_to(root):
                    paths.append(str(path))
        if not os.path.isabs(name):  # noqa: PTH117 (as the memory writes it)
            name = posixpath.join(quote(os.getcwd()), name)  # noqa: PTH109 (to quote it)
        paths.append(locate_file(name))
        return paths

    def suggest_names(self, missing: Sequence[str]) -> str:
        """Return sentences that suggest names similar to the missing ones, and explain file names.

        Returns an empty string if none are missing.
        """
        if not missing:
            return ""
        missing_names = [name for name in missing if not is_pattern(name)]
        files = {file for file, _ in self.iterate_files() if file}
        paths = {str(self.locate(file)) for file in files}
        suggestion = suggest_near_names("file", missing_names, files | paths)
        for name in missing_names[:10]:
            same_endings = sorted(path for path in paths if path.endswith(f"/{name}"))
            if same_endings:
                suggestion += f"{name!r} may be {' or '.join(map(repr, same_endings[:3]))}. "
        if any(PATTERN_CHARACTERS.intersection(name) for name in missing_names):
            suggestion += "*, ? and [ are part of a name; for a pattern, write glob:PATTERN. "
        if any("\\" in name for name in missing_names):
            suggestion += "Write / for \\. "
        below_root = ""
        if self._root.parts:
            below_root = f" by its path below {self._root},"
        return (
            f"{suggestion}Name a source file by the path that `list` shows,{below_root} or by its path"
            " from the current folder."
        )

    def _find_files(self, names: Sequence[str]) -> dict[str, set[int]]:
        """Return the ids of the samples from the file at each path that a name can mean, by path."""
        paths_by_file: dict[str, list[str]] = defaultdict(list)
        ids_by_path: dict[str, set[int]] = {}
        for name in names:
            for path in self._list_paths(name, str):
                if path in ids_by_path:
                    continue
                ids_by_path[path] = set()
                paths_by_file[path].append(path)
                if Path(path).is_relative_to(self._root):
                    file = Path(path).relative_to(self._root).as_posix()
                    if file != path:
                        paths_by_file[file].append(path)
        rows = self._memory.find_files(paths_by_file)
        files = self._memory.columns.files[rows]
        for file, sample_id in zip(files, self._memory.ids[rows].tolist(), strict=True):
            for path in paths_by_file[file]:
                ids_by_path[path].add(sample_id)
        return ids_by_path


class FileTree:
    """The source files of all samples as a tree of folders, to look up folders and patterns.

    Paths are normalized before they are compared.
    """

    def __init__(self, files: SourceFiles) -> None:
        # File name and id of the samples directly in each folder. Folders are named as in the
        # memory. A sample without a file has an empty file name.
        self._files_by_folder: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for file, sample_id in files.iterate_files():
            folder, slash, name = (file or "").rpartition("/")
            self._files_by_folder[folder + slash].append((normalize_path(name), sample_id))
        self._paths: dict[str, PurePosixPath] = {}  # the path of each folder
        # By path: the folder there, if any, and all folders below it.
        self._subfolders: dict[str, list[str]] = defaultdict(list)
        self._ids_by_path: dict[str, set[int]] = defaultdict(set)  # by path of the file
        for folder, named_ids in self._files_by_folder.items():
            path = PurePosixPath(normalize_path(str(files.locate(folder))))
            self._paths[folder] = path
            for parent in (path, *path.parents):
                self._subfolders[str(parent)].append(folder)
            for name, sample_id in named_ids:
                if name:
                    self._ids_by_path[str(path / name)].add(sample_id)

    def find_ids_below(self, path: str) -> set[int]:
        """Return the ids of a file, or of all files below a folder."""
        path = normalize_path(path)
        if path in self._ids_by_path:
            return self._ids_by_path[path]
        ids = set()
        for folder in self._subfolders.get(path, ()):
            for name, sample_id in self._files_by_folder[folder]:
                if name:  # empty for samples without a file
                    ids.add(sample_id)
        return ids

    def match_pattern(self, pattern: str) -> set[int]:
        """Return the ids of the files that match a pattern. Raises ValueError if it is too long."""
        parts = PurePosixPath(normalize_path(pattern)).parts
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
    """Return a sentence that suggests names similar to the first ten missing ones; may be empty.

    kind: the noun for a name. present: the names to choose from. The sentence ends with a space.
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
