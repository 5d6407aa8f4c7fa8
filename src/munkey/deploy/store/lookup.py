"""Where an id lies: two sorted arrays, 16 bytes a row."""

import numpy as np


class Lookup:
    """ids (N,) -> rows (N,). Deleted ids stay until they are added again; the caller looks at `live`."""

    def __init__(self, ids: np.ndarray, rows: np.ndarray) -> None:
        order = np.argsort(ids, kind="stable")
        self._ids, self._rows = ids[order], rows[order]

    @classmethod
    def of(cls, ids: np.ndarray, live: np.ndarray) -> "Lookup":
        """Of the rows of a view that are live. ids, live: (N,) of all its rows."""
        rows = np.flatnonzero(live)
        return cls(ids[rows], rows)

    def add(self, ids: np.ndarray, rows: np.ndarray) -> None:
        order = np.argsort(ids, kind="stable")
        places = np.searchsorted(self._ids, ids[order], side="right")  # behind a deleted row of the same id
        self._ids = np.insert(self._ids, places, ids[order])
        self._rows = np.insert(self._rows, places, rows[order])

    def find(self, ids: np.ndarray, live: np.ndarray) -> np.ndarray:
        """The live row of each id; -1 where there is none."""
        if not len(self._ids):
            return np.full(len(ids), -1)
        places = np.maximum(np.searchsorted(self._ids, ids, side="right") - 1, 0)
        rows = self._rows[places]
        return np.where((self._ids[places] == ids) & live[rows], rows, -1)
