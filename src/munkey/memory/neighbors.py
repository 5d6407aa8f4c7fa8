"""Exact search for nearest neighbors by cosine similarity, and files of neighbors on disk.

faiss selects candidates by float32 inner products. These are then sorted by cosines in float64. A
float32 inner product of d terms, summed in any order, differs from q.k by at most
d * 2^-23 * |q| |k| (Higham, Accuracy and Stability of Numerical Algorithms, sec. 3.1, with a
factor of 2 to spare). If another row could, within this bound, be among the nearest, the search
compares all rows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import DamagedFileError, read_npz, write_npz
from munkey.core.ids import NO_NEIGHBOR, find_rows
from munkey.encoders.keys import Keys
from munkey.memory.memory import bound_length

QUERY_BLOCK = 256  # queries per block; limits the memory for candidates
SMALL_QUERY_BLOCK = 16  # queries per comparison with all rows; limits the memory for products
ROWS_PER_PRODUCT = 16_384  # see _Search.search_candidates
FLOAT64_BLOCK = 16_384  # rows per block; limits the memory for float64 copies
UNDERFLOW_ERROR = 1e-30  # far above the error of a product that underflows in float32


class Neighbors(NamedTuple):
    """The nearest rows of a memory to each of Q queries, nearest first.

    Attributes
    ----------
    ids
        (Q, K) int64. If the memory has fewer than K rows, the last ids are NO_NEIGHBOR.
    cosines
        (Q, K) float32. The cosine of NO_NEIGHBOR is 0.
    """

    ids: np.ndarray
    cosines: np.ndarray

    def select(self, positions: np.ndarray) -> "Neighbors":
        """Return the neighbors of the queries at these positions."""
        return Neighbors(self.ids[positions], self.cosines[positions])

    def truncate(self, count: int) -> "Neighbors":
        """Return the `count` nearest neighbors of each query."""
        return Neighbors(self.ids[:, :count], self.cosines[:, :count])


class SearchedRows(NamedTuple):
    """The rows of a memory to search.

    Attributes
    ----------
    keys
        (N, d) float32.
    ids
        (N,) int64.
    live
        (N,) bool, false for deleted rows.
    max_length
        An upper bound on the Euclidean norms of the keys.
    """

    keys: np.ndarray
    ids: np.ndarray
    live: np.ndarray
    max_length: float


class NearestRows(NamedTuple):
    """The nearest live rows to each of Q queries, nearest first.

    Attributes
    ----------
    rows, ids
        (Q, K) int64. If there are fewer than K live rows, the last entries are NO_NEIGHBOR.
    cosines
        (Q, K) float64. The cosine of NO_NEIGHBOR is 0.
    """

    rows: np.ndarray
    ids: np.ndarray
    cosines: np.ndarray


def find_nearest(queries: Keys, members: Keys, depth: int) -> Neighbors:
    """Find the `depth` nearest members to each query.

    Neighbors are sorted by descending cosine, then by ascending id. If a query is itself a member,
    it comes first. Cosines are compared in float64, so neither the number of threads nor the block
    size of a matrix product can change the order.
    """
    keys = np.ascontiguousarray(members.keys)
    searched = SearchedRows(
        keys=keys,
        ids=members.ids,
        live=np.ones(len(keys), dtype=bool),
        max_length=bound_length(keys),
    )
    nearest = find_nearest_rows(queries.keys, searched, depth, queries.ids)
    return Neighbors(nearest.ids, nearest.cosines.astype(np.float32))


def find_nearest_rows(
    queries: np.ndarray,
    searched: SearchedRows,
    depth: int,
    query_ids: np.ndarray | None = None,
) -> NearestRows:
    """Find the `depth` nearest live rows to each query.

    Rows are sorted by descending cosine, then by ascending id.

    Parameters
    ----------
    queries
        (Q, d) float32.
    query_ids
        (Q,) int64, if queries may themselves be in the memory. A query's own row comes first.
    """
    shape = (len(queries), depth)
    nearest = NearestRows(
        rows=np.full(shape, NO_NEIGHBOR), ids=np.full(shape, NO_NEIGHBOR), cosines=np.zeros(shape)
    )
    if not len(searched.keys):
        return nearest
    if query_ids is None:
        query_ids = np.full(len(queries), NO_NEIGHBOR)
    search = _Search(
        queries=np.ascontiguousarray(queries),
        query_ids=query_ids,
        searched=searched,
        depth=depth,
        nearest=nearest,
    )
    for start in range(0, len(queries), QUERY_BLOCK):
        undecided = np.arange(start, min(start + QUERY_BLOCK, len(queries)))
        # faiss is slower for few queries, and does not help if all rows are candidates.
        if len(undecided) > SMALL_QUERY_BLOCK and search.candidate_count < len(searched.keys):
            undecided = search.search_candidates(undecided)
        for small_start in range(0, len(undecided), SMALL_QUERY_BLOCK):
            search.search_all_rows(undecided[small_start : small_start + SMALL_QUERY_BLOCK])
    return nearest


@dataclass(frozen=True)
class _Search:
    """A search in progress, which writes its results into `nearest`.

    In the methods, `positions` are the positions (Q,) of the queries to search for.
    """

    queries: np.ndarray
    query_ids: np.ndarray
    searched: SearchedRows
    depth: int
    nearest: NearestRows

    @property
    def candidate_count(self) -> int:
        """Candidates per query: more than `depth`, so that ties rarely require all rows."""
        return 2 * self.depth + 16

    def search_candidates(self, positions: np.ndarray) -> np.ndarray:
        """Write the nearest of faiss's candidates into the results.

        Returns the positions of the queries that need `search_all_rows`. Candidates include
        deleted rows, which faiss does not know about.
        """
        import faiss

        # By default, faiss uses BLAS only for 128,000 / d or more queries. At d = 768, 64 queries
        # took 7 times as long without it. By default, faiss also multiplies only 1,024 rows at a
        # time, and its threads wait for each other after each product. On two busy cores, fewer and
        # larger products took a quarter of the time; on one core, the time did not change.
        faiss.cvar.distance_compute_blas_threshold = 1
        faiss.cvar.distance_compute_blas_database_bs = ROWS_PER_PRODUCT
        products, rows = faiss.knn(
            self.queries[positions],
            self.searched.keys,
            self.candidate_count,
            faiss.METRIC_INNER_PRODUCT,
        )
        last_cosines = self.write_nearest(positions, rows)
        # No other row has a larger product than the last candidate, so none has a cosine above
        # this limit.
        limits = products[:, -1].astype(np.float64) + self.bound_errors(positions)
        is_decided = limits < last_cosines  # false for NaN, so these queries are searched again
        return positions[~is_decided]

    def search_all_rows(self, positions: np.ndarray) -> None:
        """Write the nearest of all rows into the results."""
        keys = self.searched.keys
        with np.errstate(over="ignore", invalid="ignore"):
            if len(positions) == 1:
                # Reading the keys takes most of the time here, and BLAS threads slow it down.
                products = np.einsum("qd,nd->qn", self.queries[positions], keys)
            else:
                products = self.queries[positions] @ keys.T
        products[:, ~self.searched.live] = -np.inf
        margins = self.bound_errors(positions)
        for index, position in enumerate(positions):
            near_rows = self.find_near_rows(
                products[index], float(margins[index]), self.query_ids[position]
            )
            live_rows = near_rows[self.searched.live[near_rows]]
            self.write_nearest(positions[index : index + 1], live_rows[None])

    def find_near_rows(self, products: np.ndarray, margin: float, query_id: int) -> np.ndarray:
        """Return the rows that may be among the nearest to a query, in ascending order.

        Parameters
        ----------
        products
            (N,) float32 inner products of the query with all keys.
        margin
            An upper bound on the errors of these products.
        """
        depth = min(self.depth, len(products))
        # Let p be the depth-th largest product. At least `depth` rows have a cosine of p - margin
        # or more, and no cosine exceeds its product + margin. So rows with a product below
        # p - 2 * margin are not among the nearest. If the threshold is NaN (inf - inf), all rows
        # remain, because every comparison with NaN is false.
        threshold = float(np.partition(products, -depth)[-depth]) - 2 * margin
        may_be_near = ~(products < threshold)
        if query_id != NO_NEIGHBOR:
            may_be_near |= self.searched.ids == query_id
        return np.flatnonzero(may_be_near)

    def write_nearest(self, positions: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Write the `depth` nearest of the candidates `rows` (Q, C) into the results.

        Candidates that are deleted or NO_NEIGHBOR are skipped.
        Returns the cosine of each query's last neighbor (Q,), or -inf if it has fewer than `depth`.
        """
        cosines = self.compute_cosines(positions, rows)
        # NO_NEIGHBOR is -1 and thus reads the last row. `is_live` is false for it.
        ids = self.searched.ids[rows]
        is_live = self.searched.live[rows] & (rows != NO_NEIGHBOR)
        is_query = ids == self.query_ids[positions, None]
        scores = cosines + 10.0 * is_query  # 10 exceeds any cosine, so the query itself is first
        scores[~is_live] = -np.inf
        # np.lexsort sorts by its last key first: by descending score, then by ascending id.
        order = np.lexsort((ids, -scores), axis=-1)[:, : self.depth]
        is_nearest_live = np.take_along_axis(is_live, order, axis=1)
        column_count = order.shape[1]  # below depth if there are fewer candidates
        for values, results, padding in (
            (rows, self.nearest.rows, NO_NEIGHBOR),
            (ids, self.nearest.ids, NO_NEIGHBOR),
            (cosines, self.nearest.cosines, 0),
        ):
            nearest_values = np.take_along_axis(values, order, axis=1)
            results[positions] = padding
            results[positions, :column_count] = np.where(is_nearest_live, nearest_values, padding)
        is_full = self.nearest.rows[positions, -1] != NO_NEIGHBOR
        return np.where(is_full, self.nearest.cosines[positions, -1], -np.inf)

    def compute_cosines(self, positions: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the cosines (Q, C) of queries and their candidates `rows`, in float64."""
        queries = self.queries[positions].astype(np.float64)
        block_size = max(1, FLOAT64_BLOCK // len(positions))
        blocks = [np.zeros((len(positions), 0))]  # np.concatenate needs one even if C is 0
        for start in range(0, rows.shape[1], block_size):
            keys = self.searched.keys[rows[:, start : start + block_size]].astype(np.float64)
            blocks.append(np.einsum("qd,qcd->qc", queries, keys))
        return np.concatenate(blocks, axis=1)

    def bound_errors(self, positions: np.ndarray) -> np.ndarray:
        """Return an upper bound (Q,) on the errors of each query's float32 products.

        The bound is inf if a product could overflow.
        """
        key_dim = self.queries.shape[1]
        lengths = np.linalg.norm(self.queries[positions].astype(np.float64), axis=1)
        largest_products = lengths * self.searched.max_length
        # Higham's bound (see the module's docstring)
        margins = key_dim * 2.0**-23 * largest_products + UNDERFLOW_ERROR
        return np.where(largest_products < np.finfo(np.float32).max / 2, margins, np.inf)


def drop_self(neighbors: Neighbors, member_ids: np.ndarray, count: int) -> Neighbors:
    """Return the `count` nearest other members (M, count) of each member of a memory."""
    is_other = neighbors.ids != member_ids[:, None]
    # A stable sort of booleans moves the member itself to the end, without reordering the others.
    order = np.argsort(~is_other, axis=1, kind="stable")[:, :count]
    ids = np.take_along_axis(np.where(is_other, neighbors.ids, NO_NEIGHBOR), order, axis=1)
    cosines = np.take_along_axis(np.where(is_other, neighbors.cosines, 0.0), order, axis=1)
    return Neighbors(ids, cosines.astype(np.float32))


def write_neighbors(path: str | Path, ids: np.ndarray, neighbors: Neighbors) -> None:
    """Write the neighbors of the samples `ids` (Q,) to an NPZ file."""
    write_npz(path, {"ids": ids, "neighbor_ids": neighbors.ids, "cosines": neighbors.cosines})


def read_neighbors(path: str | Path, ids: np.ndarray) -> Neighbors:
    """Read the neighbors of the samples `ids`, in this order.

    Raises DamagedFileError if the file has changed, and KeyError if it lacks an id.
    """
    arrays = read_npz(path, "ids", "neighbor_ids", "cosines")
    if not len(arrays["ids"]) == len(arrays["neighbor_ids"]) == len(arrays["cosines"]):
        raise DamagedFileError(path, "its arrays differ in length")
    neighbors = Neighbors(arrays["neighbor_ids"], arrays["cosines"])
    return neighbors.select(find_rows(arrays["ids"], ids))


def read_other_neighbors(path: str | Path, ids: np.ndarray, count: int) -> Neighbors:
    """Read the `count` nearest other members of each member `ids` of a memory, for training."""
    return drop_self(read_neighbors(path, ids), ids, count)
