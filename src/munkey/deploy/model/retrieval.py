"""The nearest rows of a memory on disk, while others may delete from it."""

from dataclasses import dataclass

import numpy as np
import torch

from munkey.core.device import to_device
from munkey.core.ids import NOBODY
from munkey.deploy.store.matrices import MemoryView
from munkey.deploy.store.store import Store
from munkey.memory.exemplars import ExemplarMemory, fusion_weights
from munkey.memory.neighbors import NearestRows, Neighbors, SearchedRows, nearest_rows
from munkey.settings import InferenceSettings


@dataclass(frozen=True)
class RetrievedRows:
    """The neighbors of Q queries, with their labels (Q, K) and tokens (Q, K, m); zero tokens where there is none.

    files: the source file of each, (Q, K) str or None, as the memory has it.
    """

    neighbors: Neighbors
    labels: np.ndarray
    tokens: np.ndarray
    files: np.ndarray

    def memory(self, device: str) -> ExemplarMemory:
        """The rows that are anybody's neighbor, as a memory of their own, without keys."""
        present = self.neighbors.ids != NOBODY
        ids, first = np.unique(self.neighbors.ids[present], return_index=True)
        keys, tokens = torch.zeros(len(ids), 0), torch.from_numpy(self.tokens[present][first])
        return ExemplarMemory(
            torch.from_numpy(ids), to_device(keys, device), to_device(tokens, device)
        )


def no_rows(queries: int) -> RetrievedRows:
    """No neighbors, for a family that asks none."""
    nobody = np.full((queries, 0), NOBODY)
    near = Neighbors(nobody, np.zeros((queries, 0), dtype=np.float32))
    return RetrievedRows(
        near, nobody, np.zeros((queries, 0, 1), dtype=np.float32), np.full((queries, 0), None)
    )


@dataclass(frozen=True)
class Retriever:
    """Looks up neighbors with their tokens.

    Samples that were added after training, with ids from `first_added` on, have no token of their own. Theirs is the
    average of the tokens of the nearest trained samples, weighted as inference fuses them, made anew for each answer:
    so it keeps nothing of a sample that is deleted later. None: all rows have a token.
    """

    store: Store
    inference: InferenceSettings
    first_added: int | None

    def retrieve(self, queries: np.ndarray) -> RetrievedRows:
        """The K nearest rows for each query key (Q, d); none at all where no trained sample is left.

        Neither they nor what their tokens are averaged from had been deleted when they were read. Raises ValueError for
        queries of another form.
        """
        while True:
            with self.store.reading() as view:
                near = nearest_in(view, checked(queries, view.keys.shape[1]), self.inference.k)
                rows = near.rows
                present = rows != NOBODY
                copied = view.copy(rows[present])
                names = [file for file, _ in self.store.sources_of(rows[present])]
                added = np.flatnonzero(self._are_added(copied.ids))
                tokens_lent, from_somebody, still_live = self._lent(view, rows[present][added])
            if copied.live.all() and still_live:
                break  # else something was deleted meanwhile
        known = np.ones(len(copied.ids), dtype=bool)
        known[added], copied.tokens[added] = from_somebody, tokens_lent
        present[present] = known
        labels, files = np.full(rows.shape, NOBODY), np.full(rows.shape, None)
        tokens = np.zeros((*rows.shape, view.tokens.shape[1]), dtype=np.float32)
        labels[present], tokens[present] = copied.labels[known], copied.tokens[known]
        files[present] = np.array(names, dtype=object)[known]
        cosines = np.where(present, near.cosines, 0).astype(np.float32)
        return RetrievedRows(
            Neighbors(np.where(present, near.ids, NOBODY), cosines), labels, tokens, files
        )

    def _are_added(self, ids: np.ndarray) -> np.ndarray:
        return (
            np.zeros(len(ids), dtype=bool) if self.first_added is None else ids >= self.first_added
        )

    def _lent(self, view: MemoryView, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Tokens (N, m) for added rows (N,), and for which of them there was anything to average, (N,) bool.

        Last, whether neither the rows nor what was averaged had been deleted when they were read.
        """
        if not len(rows):
            return (
                np.zeros((0, view.tokens.shape[1]), dtype=np.float32),
                np.zeros(0, dtype=bool),
                True,
            )
        once, place = np.unique(rows, return_inverse=True)
        keys = view.keys[once]
        # all trained rows lie before the first that was added
        end = int(self._are_added(view.ids).argmax())
        near = nearest_in(view, keys, self.inference.k, end)
        lenders = near.rows
        present = lenders != NOBODY
        copied = view.copy(lenders[present])
        tokens = np.zeros((*lenders.shape, view.tokens.shape[1]), dtype=np.float32)
        tokens[present] = copied.tokens
        cosines = torch.from_numpy(near.cosines.astype(np.float32))
        fusion, temperature = self.inference.fusion, self.inference.temperature
        weights = fusion_weights(cosines, torch.from_numpy(present), fusion, temperature).numpy()
        average = np.einsum("nk,nkm->nm", weights, tokens).astype(np.float32)
        return (
            average[place],
            present.any(axis=1)[place],
            bool(copied.live.all() and view.live[once].all()),
        )


def nearest_in(
    view: MemoryView, queries: np.ndarray, depth: int, end: int | None = None
) -> NearestRows:
    """The nearest live rows of a memory, or of those before number `end`."""
    searched = SearchedRows(view.keys[:end], view.ids[:end], view.live[:end], view.longest_key)
    return nearest_rows(queries, searched, depth)


def checked(queries: np.ndarray, width: int) -> np.ndarray:
    """The queries. Raises ValueError unless they are finite float32 (Q, width)."""
    if queries.ndim != 2 or queries.shape[1] != width or queries.dtype != np.float32:
        raise ValueError(
            f"wanted float32 of shape (N, {width}), not {queries.dtype} of shape {queries.shape}"
        )
    if not np.isfinite(queries).all():
        raise ValueError("queries must not hold NaN or infinity")
    return queries
