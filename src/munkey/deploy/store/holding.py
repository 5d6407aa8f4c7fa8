"""An open memory: its ledger, its matrices and its lock, used by one thread at a time."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from munkey.deploy.store import disk
from munkey.deploy.store.errors import ClosedMemoryError
from munkey.deploy.store.ledger import Ledger
from munkey.deploy.store.matrices import Matrices


class Holding:
    """What a store has open. lock: of a writer. A forked child has nothing open."""

    def __init__(self, folder: Path, ledger: Ledger, lock: int | None) -> None:
        self.folder, self._ledger, self._lock = folder, ledger, lock
        self._guard, self._process, self._closed = threading.RLock(), os.getpid(), False
        self._matrices: Matrices | None = None

    def _require_open(self) -> None:
        if self._closed or os.getpid() != self._process:
            raise ClosedMemoryError(f"{self.folder}: closed, or opened by another process; open it again")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time, while the store is open."""
        self._require_open()  # before the lock, too: in a forked child a thread that is not there may hold it forever
        with self._guard:
            self._require_open()
            yield

    @contextmanager
    def _writing(self) -> Iterator[Matrices]:
        with self._alone():
            if self._matrices is None:
                raise ClosedMemoryError(f"{self.folder}: open for reading only")
            yield self._matrices

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
