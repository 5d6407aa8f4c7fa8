"""Find the nearest rows of a memory on disk, while other threads or processes may change it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from munkey.core.device import to_device
from munkey.core.ids import NO_LABEL, NO_NEIGHBOR
from munkey.deploy.store.matrices import MemoryView
from munkey.deploy.store.store import Store
from munkey.memory.exemplars import ExemplarMemory, compute_fusion_weights
from munkey.memory.neighbors import NearestRows, Neighbors, SearchedRows, find_nearest_rows
from munkey.settings import InferenceSettings


@dataclass(frozen=True)
class RetrievedRows:
    """The neighbors of Q queries, with their labels (Q, K) and tokens (Q, K, m).

    A missing neighbor has the label -1 and a zero token. files: (Q, K) str or None, the source file
    of each neighbor, as the memory names it.
    """

    neighbors: Neighbors
    labels: np.ndarray
    tokens: np.ndarray
    files: np.ndarray

    def to_memory(self, device: str) -> ExemplarMemory:
        """Return a memory of all neighbors, each of them once, without keys."""
        present = self.neighbors.ids != NO_NEIGHBOR
        ids, first_indices = np.unique(self.neighbors.ids[present], return_index=True)
        keys = torch.zeros(len(ids), 0)
        tokens = torch.from_numpy(self.tokens[present][first_indices])
        return ExemplarMemory(
            torch.from_numpy(ids), to_device(keys, device), to_device(tokens, device)
        )


def make_empty_rows(queries: int) -> RetrievedRows:
    """Return rows of shape (queries, 0), for a family that needs no neighbors."""
    no_ids = np.full((queries, 0), NO_NEIGHBOR)
    no_cosines = np.zeros((queries, 0), dtype=np.float32)
    no_tokens = np.zeros((queries, 0, 1), dtype=np.float32)
    no_files = np.full((queries, 0), None)
    return RetrievedRows(Neighbors(no_ids, no_cosines), no_ids, no_tokens, no_files)


class LentTokens(NamedTuple):
    """Tokens (N, m) for rows that have no token of their own.

    has_lender: (N,) bool, whether a trained row lends its token. still_live: whether all rows that
    were read were still live afterwards.
    """

    tokens: np.ndarray
    has_lender: np.ndarray
    still_live: bool


@dataclass(frozen=True)
class Retriever:
    """Finds neighbors and their tokens.

    Samples added after training, with ids from `first_added` on, have no token of their own. They
    borrow the average of the tokens of the nearest trained samples, with the weights of the fusion.
    The average is recomputed for each prediction, so it never contains a deleted sample. If
    `first_added` is None, all rows have their own token.
    """

    store: Store
    inference: InferenceSettings
    first_added: int | None

    def retrieve(self, queries: np.ndarray) -> RetrievedRows:
        """Find the K rows nearest to each query key (Q, d).

        If one of these rows, or one that lends its token, is deleted during the search, the search
        is repeated. An added row is omitted if no trained sample remains to lend it a token. Raises
        ValueError unless the queries are finite float32 of this shape.
        """
        while True:
            with self.store.reading() as view:
                key_width = view.keys.shape[1]
                nearest = find_nearest(view, check_queries(queries, key_width), self.inference.k)
                is_present = nearest.rows != NO_NEIGHBOR
                rows = nearest.rows[is_present]  # of all queries, concatenated
                copied_rows = view.copy_rows(rows)
                file_names = [file for file, _ in self.store.read_sources(rows)]
                borrowers = np.flatnonzero(self._is_added(copied_rows.ids))  # indices into `rows`
                lent_tokens = self._lend_tokens(view, rows[borrowers])
            if copied_rows.live.all() and lent_tokens.still_live:
                break  # otherwise, a row was deleted during the search
        copied_rows.tokens[borrowers] = lent_tokens.tokens
        has_token = np.ones(len(rows), dtype=bool)
        has_token[borrowers] = lent_tokens.has_lender
        # From here on, rows without a token count as missing.
        is_present[is_present] = has_token
        shape = nearest.rows.shape
        labels = np.full(shape, NO_LABEL)
        labels[is_present] = copied_rows.labels[has_token]
        tokens = np.zeros((*shape, view.tokens.shape[1]), dtype=np.float32)
        tokens[is_present] = copied_rows.tokens[has_token]
        files = np.full(shape, None)
        files[is_present] = np.array(file_names, dtype=object)[has_token]
        ids = np.where(is_present, nearest.ids, NO_NEIGHBOR)
        cosines = np.where(is_present, nearest.cosines, 0).astype(np.float32)
        return RetrievedRows(Neighbors(ids, cosines), labels, tokens, files)

    def _is_added(self, ids: np.ndarray) -> np.ndarray:
        """Return whether each id (N,) is of a sample that was added after training: (N,) bool."""
        if self.first_added is None:
            return np.zeros(len(ids), dtype=bool)
        return ids >= self.first_added

    def _lend_tokens(self, view: MemoryView, rows: np.ndarray) -> LentTokens:
        """Average the tokens of the nearest trained rows, for each row (N,) that was added."""
        width = view.tokens.shape[1]
        if not len(rows):
            no_tokens = np.zeros((0, width), dtype=np.float32)
            return LentTokens(no_tokens, np.zeros(0, dtype=bool), still_live=True)
        # A row may be a neighbor of several queries. Look it up only once.
        unique_rows, unique_index = np.unique(rows, return_inverse=True)
        keys = view.keys[unique_rows]
        # All trained rows come before the first added one.
        end = int(self._is_added(view.ids).argmax())
        nearest = find_nearest(view, keys, self.inference.k, end)
        is_present = nearest.rows != NO_NEIGHBOR
        lenders = view.copy_rows(nearest.rows[is_present])
        tokens = np.zeros((*nearest.rows.shape, width), dtype=np.float32)
        tokens[is_present] = lenders.tokens
        weights = compute_fusion_weights(
            torch.from_numpy(nearest.cosines.astype(np.float32)),
            torch.from_numpy(is_present),
            self.inference.fusion,
            self.inference.temperature,
        ).numpy()
        average_tokens = np.einsum("nk,nkm->nm", weights, tokens).astype(np.float32)
        has_lender = is_present.any(axis=1)
        return LentTokens(
            tokens=average_tokens[unique_index],
            has_lender=has_lender[unique_index],
            still_live=bool(lenders.live.all() and view.live[unique_rows].all()),
        )


def find_nearest(
    view: MemoryView, queries: np.ndarray, depth: int, end: int | None = None
) -> NearestRows:
    """Find the `depth` live rows of a memory, or of its first `end` rows, nearest to each query."""
    searched_rows = SearchedRows(view.keys[:end], view.ids[:end], view.live[:end], view.longest_key)
    return find_nearest_rows(queries, searched_rows, depth)


def check_queries(queries: np.ndarray, width: int) -> np.ndarray:
    """Return the queries unchanged. Raises ValueError unless they are finite float32 (Q, width)."""
    if queries.ndim != 2 or queries.shape[1] != width or queries.dtype != np.float32:
        raise ValueError(
            f"queries must be float32 of shape (N, {width}), not {queries.dtype} of shape"
            f" {queries.shape}"
        )
    if not np.isfinite(queries).all():
        raise ValueError("queries must not contain NaN or infinity")
    return queries
