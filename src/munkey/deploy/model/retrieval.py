"""Find the nearest rows of a memory, and the tokens that a model reads with them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from munkey.core.device import to_device
from munkey.core.ids import NO_LABEL, NO_NEIGHBOR
from munkey.encoders.keys import normalize_rows
from munkey.memory.exemplars import ExemplarMemory, average_tokens
from munkey.memory.memory import Memory, bound_length
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

    has_lender: (N,) bool, whether a trained row lends its token.
    """

    tokens: np.ndarray
    has_lender: np.ndarray


@dataclass(frozen=True)
class Retriever:
    """Finds neighbors and their tokens.

    Samples added after training, with ids from `first_added` on, have no token of their own. They
    borrow the average of the tokens of the nearest trained samples, with the weights of the fusion.
    The average is recomputed for each prediction, so it never contains a deleted sample. If
    `first_added` is None, all rows have their own token.
    """

    memory: Memory
    inference: InferenceSettings
    first_added: int | None

    def retrieve(self, queries: np.ndarray) -> RetrievedRows:
        """Find the K rows nearest to each query key (Q, d).

        An added row is omitted if no trained sample remains to lend it a token. Raises ValueError
        unless the queries are finite float32 of this shape.
        """
        memory = self.memory
        queries = check_queries(queries, memory.keys.shape[1])
        nearest = find_nearest(memory, queries, self.inference.k)
        is_present = nearest.rows != NO_NEIGHBOR
        rows = nearest.rows[is_present]  # of all queries, concatenated
        row_tokens = memory.tokens[rows]
        borrowers = np.flatnonzero(self._is_added(memory.ids[rows]))  # indices into `rows`
        lent_tokens = self._lend_tokens(rows[borrowers])
        row_tokens[borrowers] = lent_tokens.tokens
        has_token = np.ones(len(rows), dtype=bool)
        has_token[borrowers] = lent_tokens.has_lender
        # From here on, rows without a token count as missing.
        is_present[is_present] = has_token
        shape = nearest.rows.shape
        labels = np.full(shape, NO_LABEL)
        labels[is_present] = memory.labels[rows][has_token]
        tokens = np.zeros((*shape, memory.tokens.shape[1]), dtype=np.float32)
        tokens[is_present] = row_tokens[has_token]
        files = np.full(shape, None)
        files[is_present] = memory.columns.files[rows][has_token]
        ids = np.where(is_present, nearest.ids, NO_NEIGHBOR)
        cosines = np.where(is_present, nearest.cosines, 0).astype(np.float32)
        return RetrievedRows(Neighbors(ids, cosines), labels, tokens, files)

    def _is_added(self, ids: np.ndarray) -> np.ndarray:
        """Return whether each id (N,) is of a sample that was added after training: (N,) bool."""
        if self.first_added is None:
            return np.zeros(len(ids), dtype=bool)
        return ids >= self.first_added

    def _lend_tokens(self, rows: np.ndarray) -> LentTokens:
        """Average the tokens of the nearest trained rows, for each row (N,) that was added."""
        memory = self.memory
        width = memory.tokens.shape[1]
        if not len(rows):
            no_tokens = np.zeros((0, width), dtype=np.float32)
            return LentTokens(no_tokens, np.zeros(0, dtype=bool))
        # A row may be a neighbor of several queries. Look it up only once.
        unique_rows, unique_index = np.unique(rows, return_inverse=True)
        keys = memory.keys[unique_rows]
        # Rows are sorted by id, so all trained rows come before the first added one.
        end = int(self._is_added(memory.ids).argmax())
        nearest = find_nearest(memory, keys, self.inference.k, end)
        is_present = nearest.rows != NO_NEIGHBOR
        tokens = np.zeros((*nearest.rows.shape, width), dtype=np.float32)
        tokens[is_present] = memory.tokens[nearest.rows[is_present]]
        lent = average_tokens(
            torch.from_numpy(tokens),
            torch.from_numpy(nearest.cosines.astype(np.float32)),
            torch.from_numpy(is_present),
            self.inference,
        ).numpy()
        has_lender = is_present.any(axis=1)
        return LentTokens(lent[unique_index], has_lender[unique_index])


def find_nearest(
    memory: Memory, queries: np.ndarray, depth: int, end: int | None = None
) -> NearestRows:
    """Find the `depth` live rows of a memory, or of its first `end` rows, nearest to each query."""
    searched_rows = SearchedRows(
        keys=memory.keys[:end],
        ids=memory.ids[:end],
        live=memory.live[:end],
        max_length=memory.longest_key,
    )
    return find_nearest_rows(queries, searched_rows, depth)


def find_nearest_by_cosine(memory: Memory, queries: np.ndarray, depth: int) -> NearestRows:
    """Find the `depth` live rows of the highest cosine with each query, whatever their lengths."""
    keys = normalize_rows(memory.keys)
    searched_rows = SearchedRows(
        keys=keys, ids=memory.ids, live=memory.live, max_length=bound_length(keys)
    )
    return find_nearest_rows(normalize_rows(queries), searched_rows, depth)


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
