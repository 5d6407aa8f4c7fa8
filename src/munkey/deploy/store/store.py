"""A memory on disk that forgets durably (docs/memory.md): one writer, any number of readers."""

import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import counted
from munkey.deploy.store import disk
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError
from munkey.deploy.store.ledger import Ledger, LedgerState, Position
from munkey.deploy.store.matrices import BLOCK, NAMES, NOTHING_READ, Matrices, MemoryView, retire
from munkey.deploy.store.recovery import (
    BESIDE,
    followed,
    foreign,
    generation_folder,
    generations,
    matrices_of,
    recover,
    wait_until_hidden,
)
from munkey.deploy.store.rows import (
    Lookup,
    Source,
    checked_contents,
    checked_ids,
    checked_texts,
    rows_from,
    same_contents,
)
from munkey.deploy.store.verify import Report, blocks, breaks, nonzero, verified

# rows that a deletion overwrites before it is acknowledged; `settle` overwrites more of them
ERASED_AT_ONCE = 1000
# deletions whose zeros may still be on their way to the disk; then `settle` waits for them
UNSETTLED = 64


class Store(AbstractContextManager["Store"]):
    """A memory, open for reading or, by one process at a time, for writing. May be used from several threads.

    Methods that write raise ClosedMemoryError where it is closed or open for reading only. A failure while something is
    being changed closes the store; opening it again recovers.
    """

    def __init__(self, folder: Path, ledger: Ledger, lock: int | None) -> None:
        """Use `Store.open`. lock: of a writer. A forked child has nothing open."""
        self.folder = folder
        self._ledger = ledger
        self._guard = threading.RLock()
        # Of the thread that changes something. Where both are needed, it is taken before the guard, and a generation is
        # locked before the guard, too: a compaction waits for readers, which need the guard.
        self._turn = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._matrices: Matrices | None = None
        # rows that are dead and not known to be zero on the disk
        self._pending: list[np.ndarray] = []
        self._lock: int | None = None
        self._view = NOTHING_READ
        self._changes: int | None = None  # the number of the ledger's changes that the view follows
        with self._whole():
            if lock is None:
                _ = self.view
            else:
                self._begin(lock)

    def _begin(self, lock: int) -> None:
        """Be the writer, which first finishes what a killed one has begun."""
        self._lock = lock
        self._matrices = recover(self.folder, self._ledger)
        self._changes = self._ledger.changes()
        self._erased = self._ledger.last().sequence
        self._view = self._mapped()
        self._lookup = Lookup(self._view.ids, np.flatnonzero(self._view.live))

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
        """A new memory, open for writing: ids (N,), keys (N, d), tokens (N, m), class labels (N,). All or nothing.

        files, units: the source file of each row, and whom or what it belongs to (a person, say), None where there is
        none; they are forgotten together with the row. contents: digests (N, 16) uint8, equal for identical contents;
        by default of the keys. Raises ValueError for ids that are negative or repeated, and numbers that are not finite
        floats; FileExistsError where the folder holds anything.
        """
        name = secrets.token_bytes(16)
        rows, known = rows_from(name, ids, keys, tokens, labels, files, units, contents)
        widths = rows.keys.shape[1], rows.tokens.shape[1]
        with disk.new_folder(Path(folder)) as new:
            matrices = Matrices.create(generation_folder(new, 1), widths)
            matrices.append(0, rows)
            matrices.seal()
            matrices.close()
            state = LedgerState(name, *widths, 1, len(rows.keys), 0, secrets.token_bytes(32))
            Ledger.create(new / "store.db", state, known)
        return cls.open(folder, writer=True)

    @classmethod
    def open(cls, folder: str | Path, *, writer: bool = False, wait: float = 0.0) -> "Store":
        """Open a memory; what a killed writer left half done is finished first. wait: seconds for another writer.

        Raises UnreadableMemoryError where the folder is not a memory, is damaged or of another format, and
        LockedMemoryError where another process is writing it already.
        """
        folder = Path(folder)
        for name in ("lock", *BESIDE):
            disk.require_plain(folder / name)
        ledger = Ledger(folder / "store.db")
        try:
            lock = disk.lock(folder, wait) if writer else None
        except BaseException:
            ledger.close()
            raise
        return cls(folder, ledger, lock)

    # What is open

    def _require_open(self) -> None:
        if self._closed or os.getpid() != self._process:
            raise ClosedMemoryError(
                f"{self.folder}: closed, or opened by another process; open it again"
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time, while the store is open."""
        # before the lock, too: in a forked child a thread that is not there may hold it forever
        self._require_open()
        with self._guard:
            self._require_open()
            yield

    @contextmanager
    def _writing(self) -> Iterator[Matrices]:
        self._require_open()
        with self._turn, self._alone():
            yield self._writable()

    def _writable(self) -> Matrices:
        if self._matrices is None:
            raise ClosedMemoryError(f"{self.folder}: open for reading only")
        return self._matrices

    @contextmanager
    def writing(self, wait: float = 0.0) -> Iterator[None]:
        """While the block runs, a store that is open for reading is the writer. wait: as for
        `open`.

        Reads by other threads go on meanwhile. Raises LockedMemoryError where another process is
        writing.
        """
        self._require_open()
        with self._turn:
            if self._matrices is not None:
                yield
                return
            with self._alone():
                lock = disk.lock(self.folder, wait)
                with self._whole():
                    self._begin(lock)
            try:
                yield
            finally:
                with self._guard:
                    if not self._closed:
                        self._read_again()

    def _read_again(self) -> None:
        """Settle, and let others write."""
        self._record_settled()
        with self._whole():
            assert self._matrices is not None and self._lock is not None
            self._matrices.close()
            self._matrices = None
            self._changes = self._ledger.changes()
            disk.unlock(self._lock)
            self._lock = None

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A failure in here leaves a closed store, which recovers when it is opened again."""
        try:
            yield
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
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
        """Whether it is open here, and its files are those that lie in its folder: else open it
        again.
        """
        return not self._closed and os.getpid() == self._process and self._ledger.in_place()

    @contextmanager
    def reading(self) -> Iterator[MemoryView]:
        """The rows as they are now. Until the block ends, no compaction moves them; deletions and additions go on.

        The block must not change the memory: a compaction in another thread would wait for it, and it for that one.
        """
        lock, view = self._locked_view()
        try:
            yield view
        finally:
            disk.unlock(lock)

    @property
    def view(self) -> MemoryView:
        """The rows as they are now, for a single look: a compaction, which `reading` keeps away, empties them."""
        with self.reading() as view:
            return view

    def _locked_view(self) -> tuple[int, MemoryView]:
        """The lock of the generation that the ledger names, for reading, and its rows."""
        with self._alone():
            generation = self._view.generation or self._ledger.state().generation
        while True:
            try:
                lock = disk.lock_generation(generation_folder(self.folder, generation))
            except LockedMemoryError:
                raise
            except OSError:  # a compaction has removed it since, or it is damaged
                with self._alone():
                    state = self._ledger.state()
                    if state.generation == generation:
                        matrices_of(self.folder, state, os.O_RDONLY).close()  # says what is wrong
                        raise
                generation = state.generation
                continue
            try:
                with self._alone():
                    generation = self._follow(generation)
                    if generation == self._view.generation:
                        return lock, self._view
            except BaseException:
                disk.unlock(lock)
                raise
            disk.unlock(lock)

    def _follow(self, locked: int) -> int:
        """The generation that the ledger names. If it is the locked one, the view is made to show all its rows."""
        changes = self._ledger.changes()  # another connection's: a writer sees none
        if changes == self._changes:
            return self._view.generation
        state = self._ledger.state()
        if state.generation == locked:
            if (state.generation, state.rows) != (self._view.generation, len(self._view.live)):
                self._view = self._mapped()
            self._changes = changes
        return state.generation

    @property
    def state(self) -> LedgerState:
        with self._alone():
            return self._ledger.state()

    @property
    def position(self) -> Position:
        """Which rows there are, as one value that every addition, deletion and compaction changes."""
        with self._alone():
            return self._ledger.position()

    @contextmanager
    def snapshot(self) -> Iterator[tuple[Position, MemoryView]]:
        """As `reading`, with where the memory stands: none that is dead by the ledger is live in the view.

        Ask for `position` again after reading: if it is another one, rows came or went meanwhile.
        """
        while True:
            with self.reading() as view:
                position = self._position_of(view)
                if position.rows == len(view.live):  # else rows came since the block began
                    yield position, view
                    return

    def _position_of(self, view: MemoryView) -> Position:
        """Where the memory stands, once no row of the view is live that is dead by the ledger."""
        waited_at = None
        with self._alone():
            while True:
                live = np.count_nonzero(view.live)
                position = self._ledger.position()
                if (
                    position.rows != len(view.live)
                    or live <= position.live
                    or position == waited_at
                ):
                    return position
                # A writer of another process has put a deletion into the ledger, and not hidden its rows yet.
                wait_until_hidden(self.folder, self._ledger, view)
                waited_at = position

    @property
    def head(self) -> str:
        """The head of the chain of deletions, hexadecimal: publish it elsewhere, and a restored backup is found."""
        with self._alone():
            return self._ledger.last().head.hex()

    @property
    def deletions(self) -> int:
        """How many rows were deleted since the memory was made."""
        with self._alone():
            return self._ledger.last().sequence

    def breaks(self) -> list[str]:
        """Where the chain of deletions, or the log of requests that it covers, is not what was written."""
        with self._alone():
            return list(breaks(self._ledger, self._ledger.links()))

    def rows_of(self, ids: ArrayLike) -> np.ndarray:
        """The live row of each id, for a writer. Raises UnknownIdsError with all ids that the memory does not hold."""
        wanted = checked_ids(ids)
        rows = self.known_rows(wanted)
        if len(unknown := np.unique(wanted[rows < 0])):
            raise UnknownIdsError(unknown.tolist())
        return rows

    def known_rows(self, ids: np.ndarray) -> np.ndarray:
        """The live row of each id (N,) int64, for a writer; -1 for one that the memory does not hold."""
        with self._alone():
            self._writable()
            return self._lookup.find(ids, self._view.live)

    def sources_of(self, rows: np.ndarray) -> list[Source]:
        """File and unit of each row (N,) of the present generation; None where none is known, or the row is dead."""
        with self._alone():
            return self._ledger.sources_of(rows)

    def ids_from(self, name: str, kind: Literal["file", "unit"] = "file") -> np.ndarray:
        """The ids of the rows that came from a source file, or belong to a unit: (N,) int64."""
        return self._ids_of(lambda _: self._ledger.rows_from(kind, name))

    def ids_with(self, contents: ArrayLike) -> np.ndarray:
        """The ids of the rows with one of these contents (M, 16): (N,) int64."""
        wanted = checked_contents(contents)
        return self._ids_of(lambda view: same_contents(view.records, wanted))

    def _ids_of(self, rows_in: Callable[[MemoryView], ArrayLike]) -> np.ndarray:
        with self.reading() as view:
            with self._alone():
                rows = np.array(rows_in(view), dtype=np.int64)
            copied = view.copy(rows[rows < len(view.live)])
            return copied.ids[copied.live]

    def twins_of(self, rows: np.ndarray) -> np.ndarray:
        """The other live rows that have the same content as any of these, ascending. Of the present generation."""
        with self.reading() as view:
            same = np.setdiff1d(same_contents(view.records, view.records["content"][rows]), rows)
            return same[view.live[same]]

    def are_blocked(self, contents: ArrayLike) -> np.ndarray:
        """Which of the contents (N, 16) `add` refuses, since they were deleted with `block_return`: (N,) bool."""
        with self._alone():
            return self._ledger.are_blocked(checked_contents(contents))

    @property
    def blocked_count(self) -> int:
        """How many contents are blocked."""
        with self._alone():
            return self._ledger.blocked_count()

    def log(self) -> list[Receipt]:
        """All deletions, in order."""
        with self._alone():
            return self._ledger.log()

    def receipt(self, request: str) -> Receipt | None:
        """Of the deletion that was asked under this number, `repeated`; None where none was."""
        with self._alone():
            return next((replace(one, repeated=True) for one in self._ledger.log(request)), None)

    def verify(self, published: str | None = None) -> Report:
        """Recompute the chain and every commitment from the disk. published: a head that must be in the chain."""
        self._require_open()
        with self._turn:
            if self._matrices is not None:
                self._record_settled()
        with self.reading() as view, self._alone():
            wait_until_hidden(self.folder, self._ledger, view)
            return verified(
                self._ledger, view, published, foreign(self.folder, self._ledger.state())
            )

    def zeroed(self, sequences: range) -> bool:
        """Whether rows, by their numbers in the log, are zero: looked at, and known to be so on the disk."""
        with self.reading() as view, self._alone():
            # a compaction has overwritten others
            rows = self._ledger.dead(sequences.start - 1, sequences.stop - 1)
            return self._ledger.state().erased >= sequences.stop - 1 and not len(
                nonzero(view, rows)
            )

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
        """Add rows, as for `create`; all of them are on the disk when this returns.

        Raises ValueError for what `create` refuses, other widths, ids that the memory holds, and contents that were
        deleted with `block_return`, unless `allow_blocked`.
        """
        with self._writing() as matrices:
            state = self._ledger.state()
            rows, known = rows_from(state.store, ids, keys, tokens, labels, files, units, contents)
            new = rows.records["id"]
            if (rows.keys.shape[1], rows.tokens.shape[1]) != state[1:3]:
                raise ValueError(
                    f"this memory takes keys of {state.key_width}, tokens of {state.token_width} numbers"
                )
            if (held := self._lookup.find(new, self._view.live) >= 0).any():
                raise ValueError(f"these ids are in the memory already: {new[held].tolist()}")
            if (
                not allow_blocked
                and (back := self._ledger.are_blocked(rows.records["content"])).any()
            ):
                raise ValueError(
                    f"deleted before, and blocked since: {new[back].tolist()}, so nothing was added"
                )
            with self._whole():
                total = state.rows + len(rows.keys)
                matrices.append(state.rows, rows)
                matrices.sync()
                sources = {state.rows + place: source for place, source in known.items()}
                self._ledger.settled(self._erased, len(rows.keys), sources)
                self._view = matrices.view(state.generation, total)
                self._lookup.add(new, np.arange(state.rows, total))

    def delete(
        self,
        ids: ArrayLike | Iterable[int],
        *,
        request: str | None = None,
        block_return: bool = False,
    ) -> Receipt:
        """Forget rows: all, or none where an id is unknown (UnknownIdsError).

        request: the number that it is asked under; the second time, nothing changes and the earlier receipt comes back,
        or ValueError where any of the ids is held. block_return: `add` refuses these contents from now on.

        When this returns, the deletion is on the disk and no reader gets these rows. Up to ERASED_AT_ONCE rows are
        overwritten with zeros too; `settle` overwrites more of them, and waits until all zeros are on the disk.
        """
        with self._writing():
            wanted = np.unique(checked_ids(ids))
            checked_texts("request", [request], 1)
            rows = self.known_rows(wanted)
            if (rows < 0).any() and (request is None or self.receipt(request) is None):
                raise UnknownIdsError(wanted[rows < 0].tolist())
            return self.delete_rows(rows[rows >= 0], request=request, block_return=block_return)

    def delete_rows(
        self, rows: np.ndarray, *, request: str | None = None, block_return: bool = False
    ) -> Receipt:
        """As `delete`, of live rows by their numbers in the present generation, in the order of the chain."""
        with self._writing() as matrices:
            checked_texts("request", [request], 1)
            if request is not None and (earlier := self.receipt(request)):
                if len(rows):
                    what = "was carried out" if earlier.sequences else "found nothing"
                    done = f"request {request!r} {what} at {earlier.when.isoformat()}"
                    still = f"the memory still holds {counted(len(rows), 'id')} of these"
                    raise ValueError(f"{done}, and {still}; give this deletion another number")
                return earlier
            with self._whole():
                receipt = self._ledger.delete(
                    rows, self._view.records[rows], self._erased, request, block_return
                )
                matrices.hide(rows, len(self._view.live))
                self._pending.append(rows)
                if len(rows) <= ERASED_AT_ONCE:
                    matrices.erase(rows)
                if len(self._pending) >= UNSETTLED:
                    self.settle()
        return receipt

    def settle(self) -> None:
        """Overwrite what is deleted with zeros and wait until they are on the disk. Call it when there is time."""
        with self._writing() as matrices, self._whole():
            if self._pending:
                matrices.erase(np.concatenate(self._pending))
                matrices.sync()
                # all of them: what is not pending was settled before
                self._erased = self._ledger.last().sequence
                self._pending.clear()

    def _record_settled(self) -> None:
        self.settle()
        with self._whole():
            self._ledger.settled(self._erased)

    def purge(self) -> tuple[str, ...]:
        """Settle, and leave no byte of what was deleted in any file of the memory; every dead row is looked at.

        Returns what lies in its folder, is not its own and therefore stays (`recovery.foreign`): with any of that,
        nobody can say that no byte is left. Raises LockedMemoryError where another process prevents it.
        """
        with self._writing() as matrices, self._whole():
            self._record_settled()
            matrices.cut(len(self._view.live))
            # of an older copy that was put back, say
            if len(left := nonzero(self._view, self._ledger.dead())):
                matrices.erase(left)
                matrices.sync()
            for other in generations(self.folder) - {matrices.folder}:
                retire(other)
            self._ledger.rewrite()
            emptied = self._ledger.empty_wal()
        if not emptied:
            raise LockedMemoryError(
                f"{self.folder}: a reader keeps the write-ahead log; nothing is lost, purge again"
            )
        return foreign(self.folder, self.state)

    def compact(self) -> tuple[str, ...]:
        """Move the live rows to a new generation without gaps; the old one is overwritten with zeros and removed.

        Readers go on while rows are copied. For the moment of the switch, the old generation is locked: whoever is
        `reading` it ends first, and whoever begins then reads the new one. Returns as `purge`, which is part of it.
        Raises LockedMemoryError, and changes nothing, where a reader does not end.
        """
        self._require_open()
        with self._turn:
            with self._alone():
                old = self._writable()
            rows = np.flatnonzero(self._view.live)
            with self._whole():
                number, new = self._copied(rows)
            try:
                lock = disk.lock_generation(old.folder, alone=True)
            except LockedMemoryError:
                new.close()
                retire(new.folder)
                raise
            try:
                with self._alone(), self._whole():
                    self._ledger.switch(number, rows)
                    self._matrices = new
                    self._erased = self._ledger.last().sequence
                    self._pending.clear()
                    self._view = self._mapped()
                    self._lookup = Lookup(self._view.ids, np.flatnonzero(self._view.live))
            finally:
                disk.unlock(lock)
            with self._whole():
                old.close()
                retire(old.folder)
                disk.sync_folder(self.folder)
            return self.purge()

    def _copied(self, rows: np.ndarray) -> tuple[int, Matrices]:
        """Copies of rows in a new generation, on the disk, and its number."""
        numbers = count(self._view.generation + 1)
        number = next(
            one for one in numbers if not os.path.lexists(generation_folder(self.folder, one))
        )
        new = Matrices.create(generation_folder(self.folder, number), self.state[1:3])
        for start, block in enumerate(blocks(rows)):
            new.append(start * BLOCK, self._view.rows(block))
        new.seal()
        return number, new

    def copy(self, folder: Path) -> None:
        """Write the memory, with its name and its chain of deletions, to a new folder. Nobody
        changes it meanwhile.
        """
        with self._writing() as matrices:
            self._record_settled()
            state = self._ledger.state()
            generation = generation_folder(folder, state.generation)
            generation.mkdir(parents=True)
            # The files themselves, not `store.db`: to open and close that one would end SQLite's
            # locks on it.
            for name in NAMES:
                shutil.copyfile(matrices.folder / name, generation / name)
            copied = Matrices(generation, state[1:3], os.O_RDWR, state.rows)
            copied.cut(state.rows)
            copied.seal()
            copied.close()
            self._ledger.copy(folder / "store.db")
            disk.sync_file(folder / "store.db")
            disk.sync_folder(folder)

    def close(self) -> None:
        """Settle and release the memory. Closing twice is no error; in a forked child, nothing happens."""
        if os.getpid() == self._process:
            with self._turn, self._guard:
                if not self._closed and self._matrices is not None:
                    self._record_settled()
                self._abandon()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _mapped(self) -> MemoryView:
        if self._matrices is None:
            return followed(self.folder, self._ledger)
        state = self._ledger.state()
        return self._matrices.view(state.generation, state.rows)
