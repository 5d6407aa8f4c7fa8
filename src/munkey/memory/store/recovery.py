"""Opening a memory: look first whether it is whole, then finish what a killed writer has begun."""

import os
import time
from pathlib import Path

import numpy as np

from munkey.memory.store import disk
from munkey.memory.store.errors import LockedMemoryError, UnreadableMemoryError
from munkey.memory.store.ledger import Ledger, State
from munkey.memory.store.matrices import Matrices, View, retire
from munkey.memory.store.verify import listed, mismatched

SAMPLE = 16  # rows whose commitments are checked on opening
PATIENCE = 10.0  # seconds that a reader waits for a writer to hide what it has deleted


def generation_folder(folder: Path, number: int) -> Path:
    return folder / f"generation-{number}"


def matrices_of(folder: Path, state: State, flags: int) -> Matrices:
    """The matrices that the ledger names. Raises UnreadableMemoryError where they are missing or too short."""
    matrices = Matrices(generation_folder(folder, state.generation), (state.key_width, state.token_width), flags)
    try:
        matrices.require(state.rows)
    except UnreadableMemoryError:
        matrices.close()
        raise
    return matrices


def live_mask(ledger: Ledger, rows: int) -> np.ndarray:
    """Which of the rows are live by the ledger: (rows,) bool."""
    dead = ledger.dead()
    if dead.size and not (dead.min() >= 0 and dead.max() < rows):
        raise UnreadableMemoryError(ledger.path, f"damaged: it lists dead rows that are not among its {rows}")
    live = np.ones(rows, dtype=bool)
    live[dead] = False
    return live


def require_sample(folder: Path, store: bytes, view: View, live: np.ndarray) -> None:
    """Raise UnreadableMemoryError where rows from all over the memory do not match their commitments."""
    rows = np.flatnonzero(live)
    if len(wrong := mismatched(store, view, rows[:: max(1, len(rows) // SAMPLE)])):
        why = f"the rows {listed(wrong)} do not match their commitments: a file is damaged, or of another memory"
        raise UnreadableMemoryError(generation_folder(folder, view.generation), why)


def recover(folder: Path, ledger: Ledger) -> Matrices:
    """Bring the files in line with the ledger, and return them, open for writing. Needs the lock."""
    state, last = ledger.state(), ledger.last().sequence
    matrices = matrices_of(folder, state, os.O_RDWR)
    try:
        live, view = live_mask(ledger, state.rows), matrices.view(state.generation, state.rows)
        require_sample(folder, state.store, view, live)  # nothing has been changed up to here
        matrices.cut(state.rows)
        if not np.array_equal(view.live, live):
            matrices.set_live(live)
        matrices.erase(ledger.dead(after=state.erased))
        matrices.sync()
        for other in sorted(set(folder.glob("generation-*/")) - {matrices.folder}):
            retire(other)
        disk.sync_folder(folder)
        if state.erased != last:
            ledger.grow(state.rows, last)
        ledger.empty_wal()
    except BaseException:
        matrices.close()
        raise
    return matrices


def followed(folder: Path, ledger: Ledger) -> View:
    """What the ledger describes now, for reading, without anything in it that has been deleted.

    Raises UnreadableMemoryError where it is damaged, LockedMemoryError where its writer hangs.
    """
    while True:
        state = ledger.state()
        try:
            matrices = matrices_of(folder, state, os.O_RDONLY)
        except UnreadableMemoryError:
            if ledger.state().generation == state.generation:
                raise
            continue  # compacted in between
        view = matrices.view(state.generation, state.rows)
        matrices.close()
        wait_until_hidden(folder, ledger, view)
        if ledger.state().generation == state.generation:
            require_sample(folder, state.store, view, view.live)
            return view


def wait_until_hidden(folder: Path, ledger: Ledger, view: View) -> None:
    """Where a writer was killed, its deletions are hidden first: by its successor, or from here.

    Raises LockedMemoryError where a writer does not get that done.
    """
    until = time.monotonic() + PATIENCE
    while True:
        dead = ledger.dead()
        if not view.live[dead[(dead >= 0) & (dead < len(view.live))]].any():
            return
        try:
            lock = disk.lock(folder / "lock")
        except LockedMemoryError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            try:
                recover(folder, ledger).close()
            finally:
                disk.unlock(lock)
