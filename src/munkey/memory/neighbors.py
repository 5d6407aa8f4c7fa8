"""Exact nearest neighbors by cosine, looked up once per memory and kept on disk."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import DamagedFileError, read_npz, write_npz
from munkey.core.ids import NOBODY, rows_of
from munkey.encoders.keys import Keys

SLACK = 1e-5  # far above the float32 rounding of a cosine
BLOCK = 256  # queries at once


class Neighbors(NamedTuple):
    """The nearest members of a memory to each query, nearest first. ids: (Q, K) int64; cosines: (Q, K) float32.

    Where the memory holds fewer than K rows, ids are NOBODY and cosines 0.
    """

    ids: np.ndarray
    cosines: np.ndarray

    def of(self, rows: np.ndarray) -> "Neighbors":
        """Those of some queries, by position."""
        return Neighbors(self.ids[rows], self.cosines[rows])

    def first(self, count: int) -> "Neighbors":
        """The first `count` of each query."""
        return Neighbors(self.ids[:, :count], self.cosines[:, :count])


def nearest(queries: Keys, members: Keys, depth: int) -> Neighbors:
    """The `depth` nearest members of a memory for each query.

    A query that is itself in the memory finds itself first; then by descending cosine, ties by ascending id. Cosines of
    the candidates are recomputed in float64, so neither threads nor faiss's blocking can change the order.
    """
    import faiss

    index = faiss.IndexFlatIP(members.keys.shape[1])
    index.add(np.ascontiguousarray(members.keys))
    result = Neighbors(
        np.full((len(queries.ids), depth), NOBODY, dtype=np.int64),
        np.zeros((len(queries.ids), depth), dtype=np.float32),
    )
    kept = min(depth, len(members.ids))
    wanted = min(2 * depth + 16, len(members.ids))  # a margin, so that rounding cannot push a true neighbor out

    def keep(positions: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Fill in the best of the candidates `rows` (Q, C); returns the cosine of the last one kept."""
        rows = np.sort(rows, axis=1)
        candidates = members.keys[rows].astype(np.float64)
        cosines = np.einsum("qd,qcd->qc", queries.keys[positions].astype(np.float64), candidates)
        rank = cosines + 10.0 * (members.ids[rows] == queries.ids[positions, None])
        order = np.argsort(-rank, axis=1, kind="stable")[:, :kept]
        result.ids[positions, :kept] = members.ids[np.take_along_axis(rows, order, axis=1)]
        result.cosines[positions, :kept] = np.take_along_axis(cosines, order, axis=1)
        return result.cosines[positions, kept - 1]

    for start in range(0, len(queries.ids) if kept else 0, BLOCK):
        block = np.arange(start, min(start + BLOCK, len(queries.ids)))
        similar, rows = index.search(np.ascontiguousarray(queries.keys[block]), wanted)
        last = keep(block, rows)
        crowded = block[similar[:, -1] > last - SLACK] if wanted < len(members.ids) else block[:0]
        for one in crowded:  # more rows are as near, e.g. equal images: look at all of them
            radius = float(last[one - start]) - SLACK
            keep(one[None], index.range_search(queries.keys[None, one], radius)[2][None])
    return result


def without_self(neighbors: Neighbors, member_ids: np.ndarray, count: int) -> Neighbors:
    """The first `count` neighbors (M, count) of members of the memory, each member itself left out."""
    others = neighbors.ids != member_ids[:, None]
    order = np.argsort(~others, axis=1, kind="stable")[:, :count]
    ids = np.take_along_axis(np.where(others, neighbors.ids, NOBODY), order, axis=1)
    cosines = np.take_along_axis(np.where(others, neighbors.cosines, 0.0), order, axis=1)
    return Neighbors(ids, cosines.astype(np.float32))


def write(path: str | Path, ids: np.ndarray, neighbors: Neighbors) -> None:
    """Write the neighbors of the samples `ids` (Q,)."""
    write_npz(path, {"ids": ids, "neighbor_ids": neighbors.ids, "cosines": neighbors.cosines})


def read(path: str | Path, ids: np.ndarray) -> Neighbors:
    """The neighbors of the samples `ids`, in their order. Raises DamagedFileError, or KeyError for an unknown id."""
    stored = read_npz(path, "ids", "neighbor_ids", "cosines")
    if not len(stored["ids"]) == len(stored["neighbor_ids"]) == len(stored["cosines"]):
        raise DamagedFileError(path, "its arrays differ in length")
    return Neighbors(stored["neighbor_ids"], stored["cosines"]).of(rows_of(stored["ids"], ids))


def read_others(path: str | Path, ids: np.ndarray, count: int) -> Neighbors:
    """For training: the `count` nearest other members of each member of the memory."""
    return without_self(read(path, ids), ids, count)
