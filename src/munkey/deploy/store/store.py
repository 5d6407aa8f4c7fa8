"""A memory on disk that forgets durably (docs/memory.md): one writer, any number of readers."""

import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import pluralize
from munkey.deploy.store import disk
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError
from munkey.deploy.store.ledger import Ledger, LedgerState, Position
from munkey.deploy.store.matrices import (
    EMPTY_VIEW,
    NAMES,
    Matrices,
    MemoryView,
    retire_generation,
)
from munkey.deploy.store.recovery import (
    SQLITE_FILES,
    find_generations,
    generation_folder,
    list_foreign_files,
    map_rows_for_reading,
    open_matrices,
    recover_memory,
    wait_until_hidden,
)
from munkey.deploy.store.rows import (
    RowIndex,
    Source,
    check_contents,
    check_ids,
    check_texts,
    find_same_contents,
    make_rows,
)
from munkey.deploy.store.verify import (
    Report,
    check_memory,
    find_chain_faults,
    find_nonzero_rows,
    split_blocks,
)
from munkey.memory.chain import Receipt

# A deletion of at most this many rows overwrites them before it returns. The rows of a larger
# deletion are overwritten by `settle`.
MAX_ERASED_AT_ONCE = 1000
# After this many deletions, `delete` calls `settle`.
MAX_PENDING_DELETIONS = 64


class Store(AbstractContextManager["Store"]):
    """A memory on disk that forgets durably.

    Open it with `Store.open`, or create one with `Store.create`. Any number of processes may read
    a memory, but only one at a time may write. A store may be used from several threads.

    Attributes
    ----------
    folder : Path
        The folder of the memory.

    Raises
    ------
    ClosedMemoryError
        If the store is closed, or was opened by another process, such as the parent of a forked
        child. Also if a method writes, but the store is open for reading only.

    Notes
    -----
    A failure during a change closes the store. Opening it again recovers the memory.

    Examples
    --------
    >>> import numpy as np
    >>> from munkey.deploy.store.store import Store
    >>> keys = np.eye(3, dtype=np.float32)
    >>> with Store.create("memory", [10, 11, 12], keys, keys) as store:
    ...     receipt = store.delete([11])
    ...     print(receipt.sequences, store.view.ids[store.view.live])
    range(1, 2) [10 12]
    """

    def __init__(self, folder: Path, ledger: Ledger, lock: int | None) -> None:
        """Use `Store.open` instead. lock: the writer's lock; None for a reader."""
        self.folder = folder
        self._ledger = ledger
        self._state_lock = threading.RLock()
        # The thread that changes the memory holds the change lock, and takes it before the state
        # lock. The lock of a generation is also taken before the state lock, because a compaction
        # waits for readers, which need the state lock.
        self._change_lock = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._matrices: Matrices | None = None  # None for a reader
        # Dead rows that are not known to be zero on disk.
        self._pending_rows: list[np.ndarray] = []
        self._lock: int | None = None
        self._view = EMPTY_VIEW
        self._data_version: int | None = None  # `Ledger.read_data_version` when the view was mapped
        with self._close_on_failure():
            if lock is None:
                _ = self.view  # maps the rows, which raises an error if the memory is damaged
            else:
                self._become_writer(lock)

    def _become_writer(self, lock: int) -> None:
        """Become the writer, and finish the changes of a killed writer. lock: the writer's lock."""
        self._lock = lock
        self._matrices = recover_memory(self.folder, self._ledger)
        self._data_version = self._ledger.read_data_version()
        self._erased_sequence = self._ledger.get_last_link().sequence
        self._view = self._map_rows()
        self._row_index = RowIndex(self._view.ids, np.flatnonzero(self._view.live))

    @classmethod
    def create(  # noqa: PLR0913  # the parts of a row
        cls,
        folder: str | Path,
        ids: ArrayLike,
        keys: ArrayLike,
        tokens: ArrayLike,
        labels: ArrayLike | None = None,
        files: Sequence[str | None] | None = None,
        units: Sequence[str | None] | None = None,
        contents: ArrayLike | None = None,
    ) -> "Store":
        """Create a memory and open it for writing. If this fails, no folder is left behind.

        Parameters
        ----------
        folder : str or Path
            A new or empty folder.
        ids : array-like of int, shape (N,)
            Ids of the rows, not negative.
        keys, tokens : array-like of float, shape (N, d) and (N, m)
            Key and token of each row.
        labels : array-like of int, shape (N,), optional
            The class index of each row. By default, unknown.
        files, units : sequence of str or None, length N, optional
            The source file of each row, and its unit, such as a person. They are forgotten together
            with the row.
        contents : array-like of uint8, shape (N, 16), optional
            Digests that are equal for identical contents. By default, digests of the keys.

        Returns
        -------
        Store
            The memory, open for writing.

        Raises
        ------
        ValueError
            If an id is negative or repeated, if keys or tokens are not finite floats, or if the
            lengths differ.
        FileExistsError
            If the folder contains files.
        """
        name = secrets.token_bytes(16)
        rows, sources = make_rows(name, ids, keys, tokens, labels, files, units, contents)
        widths = (rows.keys.shape[1], rows.tokens.shape[1])
        with disk.create_folder(Path(folder)) as new_folder:
            matrices = Matrices.create(generation_folder(new_folder, 1), widths)
            matrices.append(0, rows)
            matrices.sync_files_and_names()
            matrices.close()
            state = LedgerState(
                store=name,
                key_width=widths[0],
                token_width=widths[1],
                generation=1,
                rows=len(rows.keys),
                erased=0,
                secret=secrets.token_bytes(32),
            )
            Ledger.create(new_folder / "store.db", state, sources)
        return cls.open(folder, writer=True)

    @classmethod
    def open(cls, folder: str | Path, *, writer: bool = False, wait: float = 0.0) -> "Store":
        """Open a memory, after finishing changes that a killed writer left unfinished.

        Parameters
        ----------
        folder : str or Path
            The folder of the memory.
        writer : bool
            Whether to open it for writing.
        wait : float
            Seconds to wait for another writer.

        Returns
        -------
        Store
            The open memory.

        Raises
        ------
        UnreadableMemoryError
            If the folder is not a memory, is damaged, or has another format.
        LockedMemoryError
            If another process is still writing after `wait` seconds.
        """
        folder = Path(folder)
        for name in ("lock", *SQLITE_FILES):
            disk.require_plain_file(folder / name)
        ledger = Ledger(folder / "store.db")
        lock = None
        try:
            if writer:
                lock = disk.lock(folder, wait)
        except BaseException:
            ledger.close()
            raise
        return cls(folder, ledger, lock)

    # Locks

    def _require_open(self) -> None:
        if self._closed or os.getpid() != self._process:
            raise ClosedMemoryError(
                f"{self.folder}: closed, or opened by another process; open it again"
            )

    @contextmanager
    def _lock_state(self) -> Iterator[None]:
        """Let only one thread at a time use the store. Raises ClosedMemoryError if it is closed."""
        # Checked before the lock is taken, too: in a forked child, a thread that no longer exists
        # may hold the lock forever.
        self._require_open()
        with self._state_lock:
            self._require_open()
            yield

    @contextmanager
    def _lock_for_writing(self) -> Iterator[Matrices]:
        """Let only one thread at a time change the memory. Yields its files."""
        self._require_open()
        with self._change_lock, self._lock_state():
            yield self._require_writer()

    def _require_writer(self) -> Matrices:
        if self._matrices is None:
            raise ClosedMemoryError(f"{self.folder}: open for reading only")
        return self._matrices

    @property
    def _is_writer(self) -> bool:
        """Whether the store is a writer. Only a writer has the files of the matrices."""
        return self._matrices is not None

    @contextmanager
    def writing(self, wait: float = 0.0) -> Iterator[None]:
        """Make a store that was opened for reading writable during the block.

        Does nothing if the store is already writable. Other threads may read meanwhile.

        Parameters
        ----------
        wait : float
            Seconds to wait for another writer.

        Raises
        ------
        LockedMemoryError
            If another process is still writing after `wait` seconds.
        """
        self._require_open()
        with self._change_lock:
            if self._is_writer:
                yield
                return
            with self._lock_state():
                lock = disk.lock(self.folder, wait)
                with self._close_on_failure():
                    self._become_writer(lock)
            try:
                yield
            finally:
                with self._state_lock:
                    if not self._closed:
                        self._stop_writing()

    def _stop_writing(self) -> None:
        """Settle, and become a reader again."""
        self._settle_and_record()
        with self._close_on_failure():
            assert self._matrices is not None and self._lock is not None
            self._matrices.close()
            self._matrices = None
            self._data_version = self._ledger.read_data_version()
            disk.unlock(self._lock)
            self._lock = None

    @contextmanager
    def _close_on_failure(self) -> Iterator[None]:
        """Close the store if the block fails. The memory recovers when it is opened again."""
        try:
            yield
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        """Close all files and release the writer's lock, without writing anything."""
        self._closed = True
        self._ledger.close()
        if self._matrices is not None:
            self._matrices.close()
        if self._lock is not None:
            disk.unlock(self._lock)
            self._lock = None

    # Reading

    @property
    def in_place(self) -> bool:
        """Whether the store is open in this process, and its files are still those in its folder.

        If not, open it again.
        """
        return not self._closed and os.getpid() == self._process and self._ledger.is_wal_current()

    @contextmanager
    def reading(self) -> Iterator[MemoryView]:
        """Yield the current rows. No compaction moves them until the block ends.

        Deletions and additions continue meanwhile. The block itself must not change the memory: it
        could wait for a compaction in another thread that is waiting for the block.
        """
        lock, view = self._lock_view()
        try:
            yield view
        finally:
            disk.unlock(lock)

    @property
    def view(self) -> MemoryView:
        """The current rows. Read them at once, since a later compaction empties them.

        To keep them for longer, use `reading`.
        """
        with self.reading() as view:
            return view

    def _lock_view(self) -> tuple[int, MemoryView]:
        """Lock the current generation for reading, and return the lock and a view of its rows.

        If a compaction replaces the generation before it is locked, try the new one.
        """
        with self._lock_state():
            # The generation of the last view is nearly always still the current one. To start from
            # it saves a query of the ledger in every read.
            generation = self._view.generation
            if generation == EMPTY_VIEW.generation:  # nothing was read yet
                generation = self._ledger.read_state().generation
        while True:
            lock = self._lock_generation(generation)
            if lock is None:  # a compaction has removed it; the ledger knows its successor
                generation = self.state.generation
                continue
            try:
                with self._lock_state():
                    current_generation = self._refresh_view(generation)
                    view = self._view
            except BaseException:
                disk.unlock(lock)
                raise
            if current_generation == generation:
                return lock, view
            # A compaction has switched to another generation, but has not removed this one yet.
            disk.unlock(lock)
            generation = current_generation

    def _lock_generation(self, generation: int) -> int | None:
        """Return a lock on a generation for reading; None if a compaction has removed it."""
        try:
            return disk.lock_generation(generation_folder(self.folder, generation))
        except LockedMemoryError:  # also an OSError, but one that means that the folder exists
            raise
        except OSError:
            with self._lock_state():
                state = self._ledger.read_state()
                if state.generation != generation:
                    return None
                # The folder was not removed by a compaction, so the memory is damaged. Opening its
                # files raises an error that says so.
                open_matrices(self.folder, state, os.O_RDONLY).close()
            raise

    def _refresh_view(self, locked_generation: int) -> int:
        """Map the rows again if another process has changed the memory.

        Returns the current generation. If it is not the locked one, the view is left unchanged.
        """
        data_version = self._ledger.read_data_version()  # changes only through other connections
        if data_version == self._data_version:
            return self._view.generation
        state = self._ledger.read_state()
        if state.generation == locked_generation:
            if (state.generation, state.rows) != (self._view.generation, len(self._view.live)):
                self._view = self._map_rows()
            self._data_version = data_version
        return state.generation

    @property
    def state(self) -> LedgerState:
        """The state of the memory, read from the ledger."""
        with self._lock_state():
            return self._ledger.read_state()

    @property
    def position(self) -> Position:
        """A value that changes with every addition, deletion, or compaction."""
        with self._lock_state():
            return self._ledger.read_position()

    @contextmanager
    def snapshot(self) -> Iterator[tuple[Position, MemoryView]]:
        """Yield the position and the rows at that position. No dead row is shown as live.

        Compare the position with `position` after reading: if it has changed, rows were added,
        deleted, or moved meanwhile.
        """
        while True:
            with self.reading() as view:
                position = self._read_position(view)
                if position.rows != len(view.live):
                    continue  # rows were added after the view was mapped
                yield position, view
                return

    def _read_position(self, view: MemoryView) -> Position:
        """Return the position once all dead rows in the ledger are hidden in the view.

        If the view is outdated, return the position immediately.
        """
        checked_position = None
        with self._lock_state():
            while True:
                live_count = np.count_nonzero(view.live)  # counted before the position is read
                position = self._ledger.read_position()
                if position.rows != len(view.live):
                    return position  # `snapshot` then takes a new view
                # At `checked_position`, all dead rows have been hidden by now.
                if live_count <= position.live or position == checked_position:
                    return position
                # Another process has recorded a deletion, but has not hidden its rows yet.
                wait_until_hidden(self.folder, self._ledger, view)
                checked_position = position

    @property
    def head(self) -> str:
        """The head of the chain of deletions, in hexadecimal.

        If you publish it elsewhere, `verify` can detect a restored backup.
        """
        with self._lock_state():
            return self._ledger.get_last_link().head.hex()

    @property
    def deletions(self) -> int:
        """Number of rows deleted since the memory was created."""
        with self._lock_state():
            return self._ledger.get_last_link().sequence

    def find_chain_faults(self) -> list[str]:
        """Describe changes in the chain of deletions, or in the log of requests that it covers."""
        with self._lock_state():
            return list(find_chain_faults(self._ledger, self._ledger.list_links()))

    def require_rows(self, ids: ArrayLike) -> np.ndarray:
        """Return the live row of each id. Only for a writer.

        Raises UnknownIdsError, which lists all unknown ids, if there are any.
        """
        id_array = check_ids(ids)
        rows = self.find_rows(id_array)
        unknown_ids = np.unique(id_array[rows < 0])
        if len(unknown_ids):
            raise UnknownIdsError(unknown_ids.tolist())
        return rows

    def find_rows(self, ids: np.ndarray) -> np.ndarray:
        """Return the live row of each id (N,), or -1 for an unknown id. Only for a writer."""
        with self._lock_state():
            self._require_writer()
            return self._row_index.find(ids, self._view.live)

    def read_sources(self, rows: np.ndarray) -> list[Source]:
        """Read file and unit of each row (N,) of the current generation.

        Each is None if it is unknown, or if the row is dead.
        """
        with self._lock_state():
            return self._ledger.read_sources(rows)

    def find_ids_by_source(self, name: str, kind: Literal["file", "unit"] = "file") -> np.ndarray:
        """Return the ids of the rows with this source file or unit: (N,) int64."""
        return self._find_live_ids(lambda _: self._ledger.find_rows(kind, name))

    def find_ids_by_content(self, contents: ArrayLike) -> np.ndarray:
        """Return the ids of the rows whose content is one of these (M, 16): (N,) int64."""
        digests = check_contents(contents)
        return self._find_live_ids(
            lambda view: find_same_contents(view.records, view.content_halves, digests)
        )

    def _find_live_ids(self, find_rows: Callable[[MemoryView], ArrayLike]) -> np.ndarray:
        """Return the ids of the live rows among the rows that `find_rows` finds in a view."""
        with self.reading() as view:
            with self._lock_state():
                rows = np.array(find_rows(view), dtype=np.int64)
            # The ledger may contain rows that were added after the view was mapped.
            copied_rows = view.copy_rows(rows[rows < len(view.live)])
            return copied_rows.ids[copied_rows.live]

    def find_copies(self, rows: np.ndarray) -> np.ndarray:
        """Return other live rows that have the content of any of these rows, in ascending order."""
        with self.reading() as view:
            contents = view.records["content"][rows]
            same_rows = find_same_contents(view.records, view.content_halves, contents)
            copies = np.setdiff1d(same_rows, rows)
            return copies[view.live[copies]]

    def are_blocked(self, contents: ArrayLike) -> np.ndarray:
        """Return whether each content (N, 16) is blocked: (N,) bool.

        A content is blocked once it was deleted with `block_return`. `add` refuses it then.
        """
        with self._lock_state():
            return self._ledger.are_blocked(check_contents(contents))

    @property
    def blocked_count(self) -> int:
        """Number of blocked contents."""
        with self._lock_state():
            return self._ledger.count_blocked()

    def log(self) -> list[Receipt]:
        """Return the receipts of all deletions, in order."""
        with self._lock_state():
            return self._ledger.list_receipts()

    def find_receipt(self, request: str) -> Receipt | None:
        """Return the receipt of an earlier request, marked as `repeated`; None if there is none."""
        with self._lock_state():
            receipts = self._ledger.list_receipts(request)
        if not receipts:
            return None
        return replace(receipts[0], repeated=True)

    def verify(self, published: str | None = None) -> Report:
        """Recompute the chain and every commitment from the disk, and report all faults.

        A writer settles first, so that all of its deleted rows are checked. published: a head that
        must be in the chain.
        """
        self._require_open()
        with self._change_lock:
            if self._is_writer:
                self._settle_and_record()
        with self.reading() as view, self._lock_state():
            wait_until_hidden(self.folder, self._ledger, view)
            foreign = list_foreign_files(self.folder, self._ledger.read_state())
            return check_memory(self._ledger, view, published, foreign)

    def are_zero(self, sequences: range) -> bool:
        """Return whether deleted rows are zero, both in the memory maps and on disk.

        sequences: the sequence numbers of the rows in the chain.
        """
        with self.reading() as view, self._lock_state():
            last_sequence = sequences.stop - 1
            if self._ledger.read_state().erased < last_sequence:
                return False
            # Rows that a compaction has removed are no longer listed.
            rows = self._ledger.list_dead_rows(sequences.start - 1, last_sequence)
            return not len(find_nonzero_rows(view, rows))

    # Writing

    def add(  # noqa: PLR0913  # the parts of a row
        self,
        ids: ArrayLike,
        keys: ArrayLike,
        tokens: ArrayLike,
        labels: ArrayLike | None = None,
        files: Sequence[str | None] | None = None,
        units: Sequence[str | None] | None = None,
        contents: ArrayLike | None = None,
        *,
        allow_blocked: bool = False,
    ) -> None:
        """Add rows. All of them are on disk when this returns.

        Parameters
        ----------
        ids, keys, tokens, labels, files, units, contents
            As for `create`.
        allow_blocked : bool
            Also add contents that were deleted with `block_return`.

        Raises
        ------
        ValueError
            If `create` would refuse the rows, if their widths differ from the memory's, if an id is
            already in the memory, or if a content is blocked.
        """
        with self._lock_for_writing() as matrices:
            state = self._ledger.read_state()
            rows, sources = make_rows(
                state.store, ids, keys, tokens, labels, files, units, contents
            )
            new_ids = rows.records["id"]
            if (rows.keys.shape[1], rows.tokens.shape[1]) != (state.key_width, state.token_width):
                raise ValueError(
                    f"this memory takes keys of {state.key_width} and tokens of"
                    f" {state.token_width} numbers"
                )
            is_present = self._row_index.find(new_ids, self._view.live) >= 0
            if is_present.any():
                present_ids = new_ids[is_present].tolist()
                raise ValueError(f"these ids are already in the memory: {present_ids}")
            if not allow_blocked:
                is_blocked = self._ledger.are_blocked(rows.records["content"])
                if is_blocked.any():
                    blocked_ids = new_ids[is_blocked].tolist()
                    raise ValueError(
                        f"deleted before, and blocked since then: {blocked_ids}, so nothing was added"
                    )
            with self._close_on_failure():
                first_row = state.rows
                row_count = first_row + len(rows.keys)
                matrices.append(first_row, rows)
                # Sync before the ledger counts the rows. Otherwise, a power failure could leave
                # rows without content.
                matrices.sync()
                source_by_row = {first_row + index: source for index, source in sources.items()}
                # This commit makes the rows part of the memory.
                self._ledger.record_zeros(self._erased_sequence, len(rows.keys), source_by_row)
                self._view = matrices.map_rows(state.generation, row_count)
                self._row_index.add(new_ids, np.arange(first_row, row_count))

    def delete(
        self,
        ids: ArrayLike | Iterable[int],
        *,
        request: str | None = None,
        block_return: bool = False,
    ) -> Receipt:
        """Forget rows: all of them, or none if any id is unknown.

        When this returns, the deletion is on disk, and no reader sees these rows.

        Parameters
        ----------
        ids : array-like of int
            Ids of the rows.
        request : str, optional
            The request number. A second call with the same number and ids changes nothing, and
            returns the earlier receipt.
        block_return : bool
            Refuse to `add` the contents of these rows from now on.

        Returns
        -------
        Receipt
            The deletion's place in the chain.

        Raises
        ------
        UnknownIdsError
            If any id is unknown. The error lists all unknown ids.
        ValueError
            If an earlier request had the same number, and any of the ids is in the memory.

        Notes
        -----
        A deletion of at most MAX_ERASED_AT_ONCE rows overwrites them with zeros before it returns.
        `settle` overwrites the rows of larger deletions, and waits until all zeros are on disk.
        """
        with self._lock_for_writing():
            unique_ids = np.unique(check_ids(ids))
            check_texts("request", [request], 1)
            rows = self.find_rows(unique_ids)
            is_unknown = rows < 0
            if is_unknown.any():
                # If the same request was carried out before, unknown ids are not an error.
                is_repeated = request is not None and self.find_receipt(request) is not None
                if not is_repeated:
                    raise UnknownIdsError(unique_ids[is_unknown].tolist())
            return self.delete_rows(rows[~is_unknown], request=request, block_return=block_return)

    def delete_rows(
        self, rows: np.ndarray, *, request: str | None = None, block_return: bool = False
    ) -> Receipt:
        """Delete live rows of the current generation, as `delete` does for ids.

        Their links are appended to the chain in the order of `rows`.
        """
        with self._lock_for_writing() as matrices:
            check_texts("request", [request], 1)
            earlier_receipt = None
            if request is not None:
                earlier_receipt = self.find_receipt(request)
            if earlier_receipt and len(rows):
                outcome = "was carried out" if earlier_receipt.sequences else "found nothing"
                raise ValueError(
                    f"request {request!r} {outcome} at {earlier_receipt.when.isoformat()}, and the"
                    f" memory still holds {pluralize(len(rows), 'id')} of these; give this deletion"
                    " another number"
                )
            if earlier_receipt:
                return earlier_receipt
            with self._close_on_failure():
                # The ledger goes first. Once it lists the rows as dead, a kill cannot bring them
                # back: the next process that opens the memory hides and overwrites them.
                receipt = self._ledger.delete(
                    rows, self._view.records[rows], self._erased_sequence, request, block_return
                )
                matrices.hide(rows, len(self._view.live))
                self._pending_rows.append(rows)
                if len(rows) <= MAX_ERASED_AT_ONCE:
                    matrices.erase(rows)
                if len(self._pending_rows) >= MAX_PENDING_DELETIONS:
                    self.settle()
        return receipt

    def settle(self) -> None:
        """Overwrite deleted rows with zeros, and wait until the zeros are on disk.

        Call this when the process is idle.
        """
        with self._lock_for_writing() as matrices, self._close_on_failure():
            if self._pending_rows:
                matrices.erase(np.concatenate(self._pending_rows))
                matrices.sync()
                # This covers all deletions, because those that are not pending were settled before.
                self._erased_sequence = self._ledger.get_last_link().sequence
                self._pending_rows.clear()

    def _settle_and_record(self) -> None:
        """Settle, and record in the ledger that all rows deleted so far are zero."""
        self.settle()
        with self._close_on_failure():
            self._ledger.record_zeros(self._erased_sequence)

    def purge(self) -> tuple[str, ...]:
        """Settle, and remove every byte of deleted rows from the memory's files.

        Every dead row is checked, and overwritten again if it is not zero.

        Returns
        -------
        tuple of str
            Files in the folder that do not belong to the memory (`recovery.list_foreign_files`).
            They are neither checked nor changed.

        Raises
        ------
        LockedMemoryError
            If another process prevents the purge.
        """
        with self._lock_for_writing() as matrices, self._close_on_failure():
            self._settle_and_record()
            matrices.truncate(len(self._view.live))
            # A dead row has content again if, for example, an older copy of a file was restored.
            nonzero_rows = find_nonzero_rows(self._view, self._ledger.list_dead_rows())
            if len(nonzero_rows):
                matrices.erase(nonzero_rows)
                matrices.sync()
            for old_folder in find_generations(self.folder) - {matrices.folder}:
                retire_generation(old_folder)
            self._ledger.vacuum()
            is_emptied = self._ledger.empty_wal()
        if not is_emptied:
            raise LockedMemoryError(
                f"{self.folder}: a reader keeps the write-ahead log; nothing is lost, purge again"
            )
        return list_foreign_files(self.folder, self.state)

    def compact(self) -> tuple[str, ...]:
        """Move the live rows to a new generation without gaps, and purge.

        The old generation is overwritten with zeros and removed. Readers continue while rows are
        copied. The old generation is locked only for the switch: current readers finish first, and
        later ones read the new generation.

        Returns
        -------
        tuple of str
            Files in the folder that do not belong to the memory, as for `purge`.

        Raises
        ------
        LockedMemoryError
            If a reader does not finish in time; nothing is changed then. Also if `purge`, which
            runs last, raises it.
        """
        self._require_open()
        with self._change_lock:
            with self._lock_state():
                old_matrices = self._require_writer()
            rows = np.flatnonzero(self._view.live)
            with self._close_on_failure():
                generation, new_matrices = self._copy_rows(rows)
            try:
                lock = disk.lock_generation(old_matrices.folder, exclusive=True)
            except LockedMemoryError:
                new_matrices.close()
                retire_generation(new_matrices.folder)
                raise
            try:
                with self._lock_state(), self._close_on_failure():
                    self._ledger.switch_generation(generation, rows)
                    self._matrices = new_matrices
                    self._erased_sequence = self._ledger.get_last_link().sequence
                    self._pending_rows.clear()
                    self._view = self._map_rows()
                    self._row_index = RowIndex(self._view.ids, np.flatnonzero(self._view.live))
            finally:
                disk.unlock(lock)
            with self._close_on_failure():
                old_matrices.close()
                retire_generation(old_matrices.folder)
                disk.sync_folder(self.folder)
            return self.purge()

    def _copy_rows(self, rows: np.ndarray) -> tuple[int, Matrices]:
        """Copy rows, given by number, to a new generation on disk.

        Returns the number of the generation, and its matrices.
        """
        generation = self._view.generation + 1
        # The folder of a retired generation remains if it contains foreign files.
        while os.path.lexists(generation_folder(self.folder, generation)):
            generation += 1
        state = self.state
        widths = (state.key_width, state.token_width)
        new_matrices = Matrices.create(generation_folder(self.folder, generation), widths)
        copied_count = 0
        for block in split_blocks(rows):
            new_matrices.append(copied_count, self._view.take_rows(block))
            copied_count += len(block)
        new_matrices.sync_files_and_names()
        return generation, new_matrices

    def copy(self, folder: Path) -> None:
        """Copy the memory to a new folder, with its name and its chain of deletions.

        The memory must be open for writing. No thread can change it during the copy.
        """
        with self._lock_for_writing() as matrices:
            self._settle_and_record()
            state = self._ledger.read_state()
            copied_folder = generation_folder(folder, state.generation)
            copied_folder.mkdir(parents=True)
            # SQLite copies `store.db`, below. If this process opened and closed that file itself,
            # it would lose SQLite's locks: POSIX releases all locks of a process on a file as soon
            # as the process closes any descriptor of that file.
            for name in NAMES:
                shutil.copyfile(matrices.folder / name, copied_folder / name)
            widths = (state.key_width, state.token_width)
            copied_matrices = Matrices(copied_folder, widths, os.O_RDWR, state.rows)
            copied_matrices.truncate(state.rows)
            copied_matrices.sync_files_and_names()
            copied_matrices.close()
            self._ledger.copy(folder / "store.db")
            disk.sync_file(folder / "store.db")
            disk.sync_folder(folder)

    def close(self) -> None:
        """Settle, and release the memory. Later calls, and calls in a forked child, do nothing."""
        if os.getpid() == self._process:
            with self._change_lock, self._state_lock:
                if not self._closed and self._is_writer:
                    self._settle_and_record()
                self._release()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _map_rows(self) -> MemoryView:
        """Map the rows of the ledger's current state."""
        if self._matrices is None:
            return map_rows_for_reading(self.folder, self._ledger)
        state = self._ledger.read_state()
        return self._matrices.map_rows(state.generation, state.rows)
