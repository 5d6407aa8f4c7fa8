"""The state of files that are not the project's own, so that what was made from them is made anew when they change."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def state_of(path: str | Path, *more: Path) -> str:
    """A digest over place, size and time of change of every file at or below a path; nothing is read.

    more: files elsewhere, in their order.

    Links are followed, but no folder is entered twice, so a link that leads back to its own folder does no harm.
    """
    root = Path(path).absolute()
    stamps = sorted((os.fsencode(str(file)[len(str(root)) :]), _stamp(file)) for file in _at_or_below(root))
    stamps += [(b"", _stamp(file)) for file in more]
    return hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]


def _at_or_below(root: Path) -> Iterator[Path]:
    """A path, and all files and folders below it."""
    yield root
    entered: set[Path] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        folders.sort()  # the same order everywhere, so that of two links to one folder always the same is entered
        if (real := Path(folder).resolve()) in entered:
            folders.clear()
        else:
            entered.add(real)
            yield from (Path(folder, name) for name in [*folders, *files])


def _stamp(path: Path) -> str:
    """Size and time of change of a file; of a folder, where it really is if it is a link."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return "cannot be read"  # as a link that leads nowhere
    if stat.S_ISDIR(found.st_mode):
        return str(path.resolve()) if path.is_symlink() else "folder"
    return f"{found.st_size} {found.st_mtime_ns}"
