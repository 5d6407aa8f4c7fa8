"""Memories that need no file, and the search that every other one must equal."""

import numpy as np

from munkey.deploy.store.matrices import MemoryView
from munkey.deploy.store.rows import RECORD
from munkey.encoders.keys import Keys
from munkey.memory import neighbors
from munkey.memory.neighbors import Neighbors


def view_of(ids: np.ndarray, keys: np.ndarray, live: np.ndarray | None = None) -> MemoryView:
    records = np.zeros(len(ids), RECORD)
    records["id"] = ids
    tokens = np.asarray(ids, dtype=np.float32)[:, None]
    return MemoryView(1, keys, tokens, records, np.ones(len(ids), dtype=bool) if live is None else live)


def expected(view: MemoryView, queries: np.ndarray, depth: int) -> Neighbors:
    """What the pipeline's search says of the live rows."""
    rows = np.flatnonzero(view.live)
    rows = rows[np.argsort(view.ids[rows])]
    members = Keys(np.array(view.ids[rows]), np.array(view.keys[rows]))
    return neighbors.nearest(Keys(np.full(len(queries), -7), queries), members, depth)


def close_directions(count: int, width: int, seed: int) -> np.ndarray:
    """Unit vectors around few directions, at distances from none to what bfloat16 tells apart, and some repeated."""
    random = np.random.default_rng(seed)
    around = random.normal(size=(3, width))[random.integers(3, size=count)]
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    distances = random.choice([0, 1e-7, 1e-5, 1e-3, 1e-2], size=(count, 1))
    vectors = around + distances * random.normal(size=(count, width))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return vectors[random.integers(count, size=count)]
