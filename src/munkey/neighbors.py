"""Exact nearest neighbours by cosine, found once per memory and kept."""

import numpy as np

from munkey.data import rows_of
from munkey.files import DamagedFileError, read_npz, write_npz

NOBODY = -1  # stands where a memory holds fewer rows than were asked for
SLACK = 1e-5  # far above the float32 rounding of a cosine


def nearest(
    queries: np.ndarray, query_ids: np.ndarray, keys: np.ndarray, ids: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `depth` nearest rows of a memory for each query.

    queries: (Q, d) and keys: (N, d), float32 of unit norm; ids: (N,) ascending. A query that is itself in the memory
    finds itself first; then by falling cosine, ties by rising id. Cosines are recomputed in float64 for the candidates,
    so neither the number of threads nor faiss's blocking can change the order.
    Returns (neighbour ids (Q, depth) int64, cosines (Q, depth) float32); NOBODY and 0 where the memory is too small.
    """
    import faiss

    index = faiss.IndexFlatIP(keys.shape[1])
    index.add(np.ascontiguousarray(keys))
    out_ids = np.full((len(queries), depth), NOBODY, dtype=np.int64)
    out_cosines = np.zeros((len(queries), depth), dtype=np.float32)
    kept = min(depth, len(ids))
    wanted = min(2 * depth + 16, len(ids))  # a margin, so that rounding cannot push a true neighbour out

    def keep(queried: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Fill in the best of the candidates `rows` (Q, C); returns the cosine of the last one kept."""
        rows = np.sort(rows, axis=1)
        cosines = np.einsum("qd,qcd->qc", queries[queried].astype(np.float64), keys[rows].astype(np.float64))
        rank = cosines + 10.0 * (ids[rows] == query_ids[queried, None])
        order = np.argsort(-rank, axis=1, kind="stable")[:, :kept]
        out_ids[queried, :kept] = ids[np.take_along_axis(rows, order, axis=1)]
        out_cosines[queried, :kept] = np.take_along_axis(cosines, order, axis=1)
        return out_cosines[queried, kept - 1]

    for start in range(0, len(queries) if kept else 0, 256):
        block = np.arange(start, min(start + 256, len(queries)))
        similar, rows = index.search(np.ascontiguousarray(queries[block]), wanted)
        last = keep(block, rows)
        crowded = block[similar[:, -1] > last - SLACK] if wanted < len(ids) else block[:0]
        for one in crowded:  # more rows are as near, e.g. equal images: look at all of them
            keep(one[None], index.range_search(queries[None, one], float(last[one - start]) - SLACK)[2][None])
    return out_ids, out_cosines


def without_self(
    neighbour_ids: np.ndarray, cosines: np.ndarray, own_ids: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first `count` neighbours of members of the memory, each member itself left out. Shapes (M, count)."""
    others = neighbour_ids != own_ids[:, None]
    order = np.argsort(~others, axis=1, kind="stable")[:, :count]
    ids = np.take_along_axis(np.where(others, neighbour_ids, NOBODY), order, axis=1)
    return ids, np.take_along_axis(np.where(others, cosines, 0.0), order, axis=1).astype(np.float32)


def read_others(path: str, ids: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """For training: ids and cosines (M, count) of the nearest other members of each member of the memory."""
    neighbour_ids, cosines = read(path, ids)
    return without_self(neighbour_ids, cosines, ids, count)


def write(path: str, ids: np.ndarray, neighbour_ids: np.ndarray, cosines: np.ndarray) -> None:
    write_npz(path, {"ids": ids, "neighbour_ids": neighbour_ids, "cosines": cosines})


def read(path: str, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighbour ids and cosines of the samples `ids`, in their order."""
    stored = read_npz(path, "ids", "neighbour_ids", "cosines")
    if not len(stored["ids"]) == len(stored["neighbour_ids"]) == len(stored["cosines"]):
        raise DamagedFileError(path, "its arrays differ in length")
    rows = rows_of(stored["ids"], ids)
    return stored["neighbour_ids"][rows], stored["cosines"][rows]
