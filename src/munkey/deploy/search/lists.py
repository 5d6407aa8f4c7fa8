"""Approximate search: only rows whose keys lie near the same centroids as a query are looked at.

The index holds numbers of rows; keys stay in the memory's matrix, where a deletion overwrites them. Centroids are means
of vectors that are not in the memory: a mean of its rows would keep something of a row that is deleted later.
"""

import numpy as np

from munkey.core.ids import NOBODY
from munkey.deploy.search import exact
from munkey.deploy.search.exact import products
from munkey.deploy.search.ranking import NearestRows, nobody, ranked
from munkey.deploy.store.index import Index
from munkey.deploy.store.matrices import MemoryView

QUERIES = 1024  # at once: those that look at a list share the reading of its keys
ROUNDS = 10  # of Lloyd's algorithm


def nearest(view: MemoryView, index: Index, queries: np.ndarray, depth: int, probes: int) -> NearestRows:
    """The nearest live rows among those in the probed lists and those not in the index; cosines in float64.

    A query for which these are fewer than `depth` is searched exactly.
    """
    found = nobody(view, len(queries), depth)
    for start in range(0, len(queries), QUERIES):
        places = np.arange(start, min(start + QUERIES, len(queries)))
        listed = near(view, index, queries[places], 2 * depth + 16, probes)
        added = exact.nearest(view, queries[places], depth, first=index.covered).rows
        rows = [line[line != NOBODY] for line in np.concatenate([listed, added], axis=1)]
        found.put(places, ranked(view, queries[places], rows, depth))
    few = np.flatnonzero(found.last == -np.inf)
    if few.size:
        found.put(few, exact.nearest(view, queries[few], depth))
    return found


def near(view: MemoryView, index: Index, queries: np.ndarray, count: int, probes: int) -> np.ndarray:
    """(Q, count): the best by float32 of the listed rows that the `probes` nearest lists hold; NOBODY fills up."""
    import torch

    asked = products(queries, index.centroids, torch.float32).topk(min(probes, len(index.ends))).indices
    pairs = asked.flatten().argsort(stable=True)  # of a query and a list, list by list
    best = torch.full((len(pairs), count), -torch.inf)
    rows, keys = torch.full(best.shape, NOBODY), exact.tensor(np.asarray(view.keys))
    numbers, sizes = asked.flatten()[pairs].unique_consecutive(return_counts=True)
    for number, these in zip(numbers.tolist(), pairs.split(sizes.tolist()), strict=True):
        listed = index.members(number)
        members = torch.from_numpy(listed[view.live[listed]].astype(np.int64))
        near_to = keys.index_select(0, members).numpy()
        top = products(queries[these.numpy() // asked.shape[1]], near_to, torch.float32).topk(min(count, len(members)))
        best[these, : top.values.shape[1]] = top.values
        rows[these, : top.values.shape[1]] = members[top.indices]
    chosen = best.view(len(queries), -1).topk(count).indices
    return rows.view(len(queries), -1).gather(1, chosen).numpy()


def centroids_of(vectors: np.ndarray, count: int) -> np.ndarray:
    """(count, d) float32 of unit norm: Lloyd's algorithm on vectors (N, d) that are not in the memory."""
    import faiss

    if len(vectors) < count:
        raise ValueError(f"{len(vectors)} vectors are too few for {count} lists: pass more, or set fewer `lists`")
    means = faiss.Kmeans(vectors.shape[1], count, niter=ROUNDS, spherical=True, min_points_per_centroid=1, seed=0)
    means.train(vectors)
    return np.asarray(means.centroids)


def assigned(view: MemoryView, centroids: np.ndarray) -> np.ndarray:
    """The centroid that each row is nearest to, (N,) int64."""
    reduced = exact.first_look()
    near_to = [products(keys, centroids, reduced).argmax(1).numpy() for _, keys, _ in exact.blocks(view, 0)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *near_to])


def require_strangers(view: MemoryView, vectors: np.ndarray) -> None:
    """Raise ValueError where one of the vectors is a live row's key."""
    known = {hash(vector.tobytes()) for vector in vectors}
    same = sum(hash(key.tobytes()) in known for _, keys, live in exact.blocks(view, 0) for key in keys[live])
    if same:
        raise ValueError(
            f"{same} of these vectors are keys of the memory: centroids made of them would keep something of rows that"
            " are deleted later. Pass keys that are not in it, e.g. those of the validation split"
        )
