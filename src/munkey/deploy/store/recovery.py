"""Open a memory: check that it is undamaged, then finish the changes that a killed writer began."""

import os
import time
from pathlib import Path

import numpy as np

from munkey.core.console import pluralize
from munkey.deploy.store import disk
from munkey.deploy.store.errors import LockedMemoryError, UnreadableMemoryError
from munkey.deploy.store.ledger import Ledger, LedgerState
from munkey.deploy.store.matrices import NAMES, Matrices, MemoryView, retire_generation
from munkey.deploy.store.rows import RECORD
from munkey.deploy.store.verify import find_mismatched_rows, format_first_rows

SQLITE_FILES = ("store.db-wal", "store.db-shm")
SAMPLE_ROWS = 16  # minimum number of rows to check on opening, or all rows if there are fewer
PATIENCE_S = 10.0  # seconds that a reader waits for a writer to hide the rows that it has deleted


def generation_folder(folder: Path, number: int) -> Path:
    return folder / f"generation-{number}"


def open_matrices(folder: Path, state: LedgerState, flags: int) -> Matrices:
    """Open the matrices of the ledger's generation.

    Raises UnreadableMemoryError if they are missing or too short.
    """
    current = generation_folder(folder, state.generation)
    return Matrices(current, (state.key_width, state.token_width), flags, state.rows)


def find_generations(folder: Path) -> set[Path]:
    """Find the folders of all generations, except symbolic links."""
    folders = set()
    for path in folder.glob("generation-*"):
        is_numbered = path.name.removeprefix("generation-").isdecimal()
        if is_numbered and path.is_dir() and not path.is_symlink():
            folders.add(path)
    return folders


def list_foreign_files(folder: Path, state: LedgerState) -> tuple[str, ...]:
    """List files and folders that do not belong to a memory, and bytes after its last row.

    Rows that a writer is currently adding count as such bytes. If a compaction removes the
    generation meanwhile, nothing is listed.
    """
    current = generation_folder(folder, state.generation)
    row_sizes = (4 * state.key_width, 4 * state.token_width, RECORD.itemsize, 1)
    memory_names = {current.name, "lock", "store.db", *SQLITE_FILES}
    names = []
    tails = []
    try:
        for path in folder.iterdir():
            if path.name not in memory_names:
                names.append(path.name)
        for path in current.iterdir():
            if path.name not in NAMES or path.is_dir():
                names.append(f"{current.name}/{path.name}")
        for name, row_size in zip(NAMES, row_sizes, strict=True):
            extra_bytes = (current / name).stat().st_size - state.rows * row_size
            if extra_bytes > 0:
                tails.append(f"{current.name}/{name}, {extra_bytes} bytes after its last row")
    except FileNotFoundError:  # a compaction has removed the generation
        return ()
    return (*sorted(names), *tails)


def require_undamaged(folder: Path, ledger: Ledger, view: MemoryView) -> np.ndarray:
    """Check the rows, and return which are live according to the ledger: (N,) bool.

    Raises UnreadableMemoryError if the ledger lists dead rows that do not exist, if a row is hidden
    but the ledger has lost its deletion, or if a row of a sample does not match its commitment.
    """
    # Read in this order: the ledger counts a row before listing it as dead, and lists it as dead
    # before the row is hidden. Read `live` as bytes: in a damaged file, not all are 0 or 1.
    is_hidden = view.live.view("u1") == 0
    dead_rows = ledger.list_dead_rows()
    row_count = ledger.read_state().rows
    if len(dead_rows) and (dead_rows.min() < 0 or dead_rows.max() >= row_count):
        raise UnreadableMemoryError(
            ledger.path, f"damaged: it lists dead rows that are not among its {row_count}"
        )
    is_live = np.ones(len(is_hidden), dtype=bool)
    is_live[dead_rows[dead_rows < len(is_live)]] = False
    lost_rows = np.flatnonzero(is_live & is_hidden)
    if len(lost_rows):
        raise UnreadableMemoryError(
            ledger.path,
            f"does not know of {pluralize(len(lost_rows), 'deleted row')},"
            f" {format_first_rows(lost_rows)}: it is older than the rows, or its write-ahead log,"
            " store.db-wal, was lost",
        )
    live_rows = np.flatnonzero(is_live)
    # Checking all rows, as `verify` does, would make opening slow.
    step = max(1, len(live_rows) // SAMPLE_ROWS)
    wrong_rows = find_mismatched_rows(ledger, view, live_rows[::step])
    if len(wrong_rows):
        raise UnreadableMemoryError(
            generation_folder(folder, view.generation),
            f"{pluralize(len(wrong_rows), 'row')} not matching their commitment,"
            f" {format_first_rows(wrong_rows)}: a file or a source file's name was changed, or is"
            " from another memory",
        )
    return is_live


def recover_memory(folder: Path, ledger: Ledger) -> Matrices:
    """Make the files match the ledger, and return them, open for writing.

    The caller must hold the writer's lock. Raises UnreadableMemoryError if the memory is damaged,
    and changes nothing then.
    """
    state = ledger.read_state()
    last_sequence = ledger.get_last_link().sequence
    matrices = open_matrices(folder, state, os.O_RDWR)
    try:
        view = matrices.map_rows(state.generation, state.rows)
        is_live = require_undamaged(folder, ledger, view)  # nothing has been changed up to here
        matrices.truncate(state.rows)
        if not np.array_equal(view.live.view("u1"), is_live.view("u1")):
            matrices.set_live(is_live)
        matrices.erase(ledger.list_dead_rows(after=state.erased))
        matrices.sync()
        # Left by a compaction that was killed before or after it switched generations.
        for other_folder in sorted(find_generations(folder) - {matrices.folder}):
            retire_generation(other_folder)
        disk.sync_folder(folder)
        if state.erased != last_sequence:
            ledger.record_zeros(last_sequence)
        ledger.empty_wal()
    except BaseException:
        matrices.close()
        raise
    return matrices


def map_rows_for_reading(folder: Path, ledger: Ledger) -> MemoryView:
    """Map the rows of the ledger's current state, once all deleted rows are hidden.

    The generation must be locked. Raises UnreadableMemoryError if the memory is damaged, and
    LockedMemoryError if a running writer does not hide deleted rows in time.
    """
    state = ledger.read_state()
    matrices = open_matrices(folder, state, os.O_RDONLY)
    view = matrices.map_rows(state.generation, state.rows)
    matrices.close()
    wait_until_hidden(folder, ledger, view)
    require_undamaged(folder, ledger, view)
    return view


def wait_until_hidden(folder: Path, ledger: Ledger, view: MemoryView) -> None:
    """Wait until every dead row in the ledger is hidden.

    If the writer was killed before it hid them, this function or the next writer hides them. Raises
    LockedMemoryError if a running writer does not do so in time.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        dead_rows = ledger.list_dead_rows()
        is_in_view = (dead_rows >= 0) & (dead_rows < len(view.live))
        if not view.live[dead_rows[is_in_view]].any():
            return
        try:
            lock = disk.lock(folder)
        except LockedMemoryError:  # a writer is running, and will hide its rows in a moment
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            try:
                recover_memory(folder, ledger).close()
                return
            finally:
                disk.unlock(lock)
