"""Sums over the rows of a memory that follow its changes, by whichever process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import numpy as np

from munkey.memory.memory import Memory
from munkey.memory.sums import BLOCK, Sums


class FollowingSums:
    """Sums over the live rows of a memory.

    They keep the memory that they were last computed for. Rows that a later memory lacks are
    subtracted, and its new rows are added; the sums are exact, so the order does not matter.
    empty: sums over no rows.
    """

    def __init__(self, empty: Sums) -> None:
        self._empty = empty
        self._lock = threading.Lock()
        self._sums: Sums | None = None
        self._memory: Memory | None = None

    @contextmanager
    def follow(self, memory: Memory, classes: int) -> Iterator[Sums]:
        """Yield the sums over the rows of a memory. Use them only inside the block.

        classes: the number of classes. Raises ValueError if its rows cannot be summed.
        """
        with self._lock:
            sums = self._sums
            earlier = self._memory
            # Unset meanwhile, so that a failure leaves no wrong sums.
            self._sums = None
            self._memory = None
            if sums is None or earlier is None:
                sums = deepcopy(self._empty)
                added = memory.live_rows
            else:
                dropped, added = memory.find_changes(earlier)
                _add_rows(sums, earlier, dropped, sign=-1)
            sums.resize(classes)
            _add_rows(sums, memory, added, sign=1)
            self._sums = sums
            self._memory = memory
            yield sums


def _add_rows(sums: Sums, memory: Memory, rows: np.ndarray, sign: int) -> None:
    """Add rows of a memory to sums, or subtract them; few at a time, since they are copied."""
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        sums.add(memory.keys[block], memory.labels[block], sign)
