"""Opening a memory: look first whether it is whole, then finish what a killed writer has begun."""

import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from munkey.core.console import counted
from munkey.deploy.store import disk
from munkey.deploy.store.errors import LockedMemoryError, UnreadableMemoryError
from munkey.deploy.store.ledger import Ledger, LedgerState
from munkey.deploy.store.matrices import NAMES, Matrices, MemoryView, retire
from munkey.deploy.store.rows import RECORD
from munkey.deploy.store.verify import listed, mismatched

BESIDE = ("store.db-wal", "store.db-shm")
SAMPLE = 16  # rows whose commitments are checked on opening
PATIENCE_S = 10.0  # seconds that a reader waits for a writer to hide what it has deleted


def generation_folder(folder: Path, number: int) -> Path:
    return folder / f"generation-{number}"


def matrices_of(folder: Path, state: LedgerState, flags: int) -> Matrices:
    """The matrices that the ledger names. Raises UnreadableMemoryError where they are missing or too short."""
    own = generation_folder(folder, state.generation)
    return Matrices(own, (state.key_width, state.token_width), flags, state.rows)


def generations(folder: Path) -> set[Path]:
    """The folders of all generations, no links."""
    paths = (
        path
        for path in folder.glob("generation-*")
        if path.name.removeprefix("generation-").isdecimal()
    )
    return {path for path in paths if path.is_dir() and not path.is_symlink()}


def foreign(folder: Path, state: LedgerState) -> tuple[str, ...]:
    """What is in the folder of a memory and not its own: other files and folders, and bytes behind its last row.

    Nobody but their owner knows what they hold. What a writer is adding just now is among them.
    """
    own = generation_folder(folder, state.generation)
    sizes = zip(
        NAMES, (4 * state.key_width, 4 * state.token_width, RECORD.itemsize, 1), strict=True
    )
    with suppress(FileNotFoundError):  # compacted meanwhile
        paths = {*folder.iterdir()} - {
            own,
            *(folder / name for name in ("lock", "store.db", *BESIDE)),
        }
        paths |= {path for path in own.iterdir() if path.name not in NAMES or path.is_dir()}
        behind = {name: (own / name).stat().st_size - state.rows * size for name, size in sizes}
        tails = (
            f"{own.name}/{name}, {size} bytes behind its last row"
            for name, size in behind.items()
            if size > 0
        )
        return (*sorted(str(path.relative_to(folder)) for path in paths), *tails)
    return ()


def require_whole(folder: Path, ledger: Ledger, view: MemoryView) -> np.ndarray:
    """Which of the rows are live by the ledger: (N,) bool.

    Raises UnreadableMemoryError where the ledger names dead rows that are not there, or has lost deletions, since other
    rows are hidden; and where rows from all over the memory do not match their commitments.
    """
    # In this order: a row is dead by the ledger before it is hidden, and counted before it is dead.
    hidden = view.live.view("u1") == 0
    dead = ledger.dead()
    rows = ledger.state().rows
    live = np.ones(len(hidden), dtype=bool)
    if dead.size and not (dead.min() >= 0 and dead.max() < rows):
        raise UnreadableMemoryError(
            ledger.path, f"damaged: it lists dead rows that are not among its {rows}"
        )
    live[dead[dead < len(live)]] = False
    if len(lost := np.flatnonzero(live & hidden)):
        why = "it is older than the rows are, or its write-ahead log, store.db-wal, was lost"
        said = f"does not know of {counted(len(lost), 'deleted row')}, {listed(lost)}: {why}"
        raise UnreadableMemoryError(ledger.path, said)
    live_rows = np.flatnonzero(live)
    if len(wrong := mismatched(ledger, view, live_rows[:: max(1, len(live_rows) // SAMPLE)])):
        why = "a file or the name of a source file was changed, or is of another memory"
        said = f"{counted(len(wrong), 'row')} not matching their commitment, {listed(wrong)}: {why}"
        raise UnreadableMemoryError(generation_folder(folder, view.generation), said)
    return live


def recover(folder: Path, ledger: Ledger) -> Matrices:
    """Bring the files in line with the ledger, and return them, open for writing. Needs the lock."""
    state, last = ledger.state(), ledger.last().sequence
    matrices = matrices_of(folder, state, os.O_RDWR)
    try:
        view = matrices.view(state.generation, state.rows)
        live = require_whole(folder, ledger, view)  # nothing has been changed up to here
        matrices.cut(state.rows)
        if not np.array_equal(view.live.view("u1"), live.view("u1")):
            matrices.set_live(live)
        matrices.erase(ledger.dead(after=state.erased))
        matrices.sync()
        for other in sorted(generations(folder) - {matrices.folder}):
            retire(other)
        disk.sync_folder(folder)
        if state.erased != last:
            ledger.settled(last)
        ledger.empty_wal()
    except BaseException:
        matrices.close()
        raise
    return matrices


def followed(folder: Path, ledger: Ledger) -> MemoryView:
    """What the ledger describes now, for reading, without anything in it that has been deleted.

    Its generation must be locked. Raises UnreadableMemoryError where it is damaged, LockedMemoryError where its writer
    hangs.
    """
    state = ledger.state()
    matrices = matrices_of(folder, state, os.O_RDONLY)
    view = matrices.view(state.generation, state.rows)
    matrices.close()
    wait_until_hidden(folder, ledger, view)
    require_whole(folder, ledger, view)
    return view


def wait_until_hidden(folder: Path, ledger: Ledger, view: MemoryView) -> None:
    """Where a writer was killed, its deletions are hidden first: by its successor, or from here.

    Raises LockedMemoryError where a writer does not get that done.
    """
    until = time.monotonic() + PATIENCE_S
    while True:
        dead = ledger.dead()
        if not view.live[dead[(dead >= 0) & (dead < len(view.live))]].any():
            return None
        try:
            lock = disk.lock(folder)
        except LockedMemoryError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            try:
                return recover(folder, ledger).close()
            finally:
                disk.unlock(lock)
