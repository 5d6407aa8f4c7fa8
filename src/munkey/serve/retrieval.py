"""The nearest rows of a memory on disk, while others may delete from it."""

from dataclasses import dataclass

import numpy as np
import torch

from munkey.core.device import to_device
from munkey.core.ids import NOBODY
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.neighbors import Neighbors
from munkey.memory.search.search import Search


@dataclass(frozen=True)
class Retrieved:
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
        return ExemplarMemory(torch.from_numpy(ids), to_device(keys, device), to_device(tokens, device))


def retrieve(search: Search, queries: np.ndarray, depth: int) -> Retrieved:
    """The `depth` nearest rows for each query key (Q, d). None of them had been deleted when they were read.

    Raises UnreadableIndexError.
    """
    while True:
        near, rows, view = search.nearest(queries, depth)
        present = rows != NOBODY
        copied, names = view.copy(rows[present]), search.store.files_of(rows[present])
        if copied.live.all() and search.store.view.generation == view.generation:
            break
    labels, files = np.full(rows.shape, NOBODY), np.full(rows.shape, None)
    tokens = np.zeros((*rows.shape, view.tokens.shape[1]), dtype=np.float32)
    labels[present], tokens[present], files[present] = copied.labels, copied.tokens, names
    return Retrieved(near, labels, tokens, files)
