"""Digests of external files, so that results are recomputed when these files change."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def compute_stamp(path: str | Path, *further_files: Path) -> str:
    """Return a digest of paths, sizes, and modification times of all files at or below a path.

    Follows links, but enters each folder once. Sizes and times of `further_files` count as well.
    """
    root = Path(path).absolute()
    stamps = []
    for file in _walk(root):
        relative_path = str(file).removeprefix(str(root))
        stamps.append((os.fsencode(relative_path), _stamp(file)))
    stamps.sort()
    stamps += [(b"", _stamp(file)) for file in further_files]
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]


def _walk(root: Path) -> Iterator[Path]:
    """Yield a path, and all files and folders below it."""
    yield root
    visited: set[Path] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()  # if two links lead to one folder, always enter it by the same link
        real_folder = Path(folder).resolve()
        if real_folder in visited:
            folders.clear()
            continue
        visited.add(real_folder)
        for name in [*folders, *files]:
            yield Path(folder, name)


def _stamp(path: Path) -> str:
    """Return the size and modification time of a file, or the target of a link to a folder."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return "cannot be read"  # e.g. a dangling link
    if not stat.S_ISDIR(status.st_mode):
        return f"{status.st_size} {status.st_mtime_ns}"
    if path.is_symlink():
        return str(path.resolve())
    return "folder"
