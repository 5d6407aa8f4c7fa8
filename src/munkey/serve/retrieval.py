"""The nearest rows of a memory on disk, while others may delete from it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from munkey.core.ids import NOBODY
from munkey.encoders.keys import Keys
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.neighbors import Neighbors, nearest
from munkey.memory.store.matrices import View
from munkey.memory.store.store import Store


class Found(NamedTuple):
    """The nearest rows of a view. rows: (Q, K), NOBODY where there are fewer; cosines: (Q, K) float32."""

    rows: np.ndarray
    cosines: np.ndarray


def search(view: View, queries: np.ndarray, depth: int) -> Found:
    """The `depth` nearest live rows for each query key (Q, d); ties by ascending id. The one place that searches."""
    live = np.flatnonzero(view.live)
    live = live[np.argsort(view.ids[live], kind="stable")]
    members = Keys(np.arange(len(live)), view.keys[live])
    near = nearest(Keys(np.full(len(queries), NOBODY), queries), members, depth)
    return Found(np.append(live, NOBODY)[near.ids], near.cosines)  # NOBODY is the last one too


@dataclass(frozen=True)
class Retrieved:
    """The neighbors of Q queries, with their labels (Q, K) and tokens (Q, K, m); zero tokens where there is none."""

    neighbors: Neighbors
    labels: np.ndarray
    tokens: np.ndarray

    def memory(self, device: str) -> ExemplarMemory:
        """The rows that are anybody's neighbor, as a memory of their own, without keys."""
        present = self.neighbors.ids != NOBODY
        ids, first = np.unique(self.neighbors.ids[present], return_index=True)
        parts = (ids, np.zeros((len(ids), 0), np.float32), self.tokens[present][first])
        return ExemplarMemory(*(torch.from_numpy(part).to(device) for part in parts))


def retrieve(store: Store, queries: np.ndarray, depth: int) -> Retrieved:
    """The `depth` nearest rows for each query key (Q, d). None of them had been deleted when they were read."""
    while True:
        view = store.view
        rows, cosines = search(view, queries, depth)
        present = rows != NOBODY
        copied = view.copy(rows[present])
        if copied.live.all() and store.view.generation == view.generation:
            break
    ids, labels = np.full(rows.shape, NOBODY), np.full(rows.shape, NOBODY)
    tokens = np.zeros((*rows.shape, view.tokens.shape[1]), dtype=np.float32)
    ids[present], labels[present], tokens[present] = copied.ids, copied.labels, copied.tokens
    return Retrieved(Neighbors(ids, cosines), labels, tokens)
