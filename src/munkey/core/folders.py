"""Folders that are complete or missing, even after a crash."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Wait until a folder's entries are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_empty_folder(folder: Path) -> None:
    """Raise FileExistsError unless a folder is empty or missing."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise FileExistsError(f"{folder}: already contains files; choose a new or empty folder")


@contextmanager
def create_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder, which is renamed to `folder` if the block succeeds.

    If the block fails, the hidden folder is removed; if the process is killed, it stays. The block
    must sync the files that it writes; this function syncs the folder's entries. Raises
    FileExistsError if `folder` contains files.
    """
    require_empty_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    temporary.mkdir()
    mode = temporary.stat().st_mode  # set by the user's umask; copying files may change it
    try:
        yield temporary
        # Synced before the rename, so that a power failure never leaves an incomplete folder.
        sync_folder(temporary)
        temporary.chmod(mode)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary)
        raise
    sync_folder(folder.parent)
