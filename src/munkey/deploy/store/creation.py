"""A new memory: whole, or not there."""

from collections.abc import Mapping
from pathlib import Path

from munkey.deploy.store import disk
from munkey.deploy.store.ledger import Ledger, State
from munkey.deploy.store.matrices import Matrices
from munkey.deploy.store.recovery import generation_folder
from munkey.deploy.store.rows import Rows


def create(folder: Path, store: bytes, rows: Rows, files: Mapping[int, str]) -> None:
    """Write a memory of the name `store`. files: the source files of some rows, by number.

    Raises FileExistsError where the folder holds anything.
    """
    with disk.new_folder(folder) as new:
        widths = rows.keys.shape[1], rows.tokens.shape[1]
        matrices = Matrices.create(generation_folder(new, 1), widths)
        matrices.append(0, rows)
        matrices.seal()
        matrices.close()
        Ledger.create(new / "store.db", State(store, *widths, 1, len(rows.keys), 0), files)
