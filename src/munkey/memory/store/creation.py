"""A new memory: whole, or not there."""

import shutil
import tempfile
from pathlib import Path

from munkey.memory.store import disk
from munkey.memory.store.ledger import Ledger, State
from munkey.memory.store.matrices import Matrices
from munkey.memory.store.recovery import generation_folder
from munkey.memory.store.rows import Rows


def create(folder: Path, store: bytes, rows: Rows) -> None:
    """Write a memory of the name `store` beside `folder`, then move it there, whole.

    Raises FileExistsError where the folder holds anything.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise FileExistsError(f"{folder}: is not empty; a new memory needs a folder of its own")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        write(temporary, store, rows)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary)
        raise
    disk.sync_folder(folder.parent)


def write(folder: Path, store: bytes, rows: Rows) -> None:
    """A whole memory in an empty folder, on the disk."""
    widths = rows.keys.shape[1], rows.tokens.shape[1]
    matrices = Matrices.create(generation_folder(folder, 1), widths)
    matrices.append(0, rows)
    matrices.seal()
    matrices.close()
    Ledger.create(folder / "store.db", State(store, *widths, 1, len(rows.keys), 0))
    disk.sync_folder(folder)
