"""What a search returns, and how candidates are put in order: by descending cosine in float64, ties by ascending id."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from munkey.core.ids import NOBODY
from munkey.deploy.store.matrices import MemoryView
from munkey.memory.neighbors import Neighbors

ROWS_IN_FLOAT64 = 1024  # rows that are in float64 at a time


class NearestRows(NamedTuple):
    """The nearest rows to each query, nearest first. neighbors: as of `neighbors.nearest`; rows: (Q, K) of `view`.

    Where the memory holds fewer than K rows, ids and rows are NOBODY and cosines 0. Read tokens with `view.copy(rows)`,
    which tells what has been deleted since.
    """

    neighbors: Neighbors
    rows: np.ndarray
    view: MemoryView

    @property
    def last(self) -> np.ndarray:
        """The cosine (Q,) of the last neighbor asked for; -inf where there are fewer."""
        return np.where(self.rows[:, -1] == NOBODY, -np.inf, self.neighbors.cosines[:, -1])

    def put(self, places: np.ndarray, part: "NearestRows") -> None:
        """Overwrite what was found for the queries at some places."""
        for target, source in zip((*self.neighbors, self.rows), (*part.neighbors, part.rows), strict=True):
            target[places] = source


def nobody(view: MemoryView, queries: int, depth: int) -> NearestRows:
    """Nothing yet. Cosines are in float64, to be compared."""
    ids, rows = (np.full((queries, depth), NOBODY, dtype=np.int64) for _ in range(2))
    return NearestRows(Neighbors(ids, np.zeros((queries, depth))), rows, view)


def ranked(view: MemoryView, queries: np.ndarray, candidates: Sequence[np.ndarray], depth: int) -> NearestRows:
    """The `depth` best of the candidates of each query, rows (C,), that are live after they were read."""
    found = nobody(view, len(queries), depth)
    for place, (query, candidate) in enumerate(zip(queries, candidates, strict=True)):
        near, ids = scores(view, query, candidate), view.ids[candidate]
        live = view.live[candidate]  # looked at last
        near, ids, rows = near[live], ids[live], candidate[live]
        order = np.lexsort((ids, -near))[:depth]
        for target, source in zip((*found.neighbors, found.rows), (ids, near, rows), strict=True):
            target[place, : len(order)] = source[order]
    return found


def scores(view: MemoryView, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Cosines (C,) of some rows in float64, the same bits as in `neighbors.nearest`."""
    parts = [view.keys[rows[start : start + ROWS_IN_FLOAT64]] for start in range(0, len(rows), ROWS_IN_FLOAT64)]
    wide = query[None].astype(np.float64)
    near = [np.einsum("qd,qcd->qc", wide, part[None].astype(np.float64))[0] for part in parts]
    return np.concatenate(near) if near else np.zeros(0)
