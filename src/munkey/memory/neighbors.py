"""Exact search for nearest neighbors by cosine, and the files of neighbors on disk.

faiss selects candidates by their products in float32, and float64 sorts them. A float32 product of
d terms, summed in any order, differs from q.k by at most d * 2^-23 * |q| |k| (Higham, Accuracy and
Stability of Numerical Algorithms, sec. 3.1, with a factor of 2 to spare). If, within
that bound, another row could be as near as a candidate, the search compares all rows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import DamagedFileError, read_npz, write_npz
from munkey.core.ids import NOBODY, find_rows
from munkey.encoders.keys import Keys

QUERIES = 256  # at once: bounds the memory of candidates
FEW = 16  # queries at once in a comparison with all rows: bounds the memory of their products
ROWS_IN_A_PRODUCT = 16_384  # see look_first
ROWS_IN_FLOAT64 = 16_384  # at once: bounds the memory of float64 copies
TINY = 1e-30  # far above the error of a product that underflows in float32


class Neighbors(NamedTuple):
    """The nearest rows of a memory to each query, nearest first.

    ids: (Q, K) int64; cosines: (Q, K) float32. If the memory has fewer than K rows, the last ids
    are NOBODY and their cosines 0.
    """

    ids: np.ndarray
    cosines: np.ndarray

    def select(self, rows: np.ndarray) -> "Neighbors":
        """The neighbors of the queries at these positions."""
        return Neighbors(self.ids[rows], self.cosines[rows])

    def truncate(self, count: int) -> "Neighbors":
        """The `count` nearest of each query."""
        return Neighbors(self.ids[:, :count], self.cosines[:, :count])


class SearchedRows(NamedTuple):
    """The rows to search, in arrays or memory maps.

    keys: (N, d) float32; ids: (N,) int64; live: (N,) bool, false for deleted rows. Another thread
    or process may clear it during the search, before it overwrites the key. max_length: no key is
    longer.
    """

    keys: np.ndarray
    ids: np.ndarray
    live: np.ndarray
    max_length: float


class NearestRows(NamedTuple):
    """The nearest rows to each query, nearest first.

    rows, ids: (Q, K) int64; cosines: (Q, K) float64. With fewer than K live rows, the last rows and
    ids are NOBODY and their cosines 0.
    """

    rows: np.ndarray
    ids: np.ndarray
    cosines: np.ndarray


def find_nearest(queries: Keys, members: Keys, depth: int) -> Neighbors:
    """The `depth` nearest rows of a memory to each query, by descending cosine, then ascending id.

    A query that is itself in the memory comes first. Cosines are compared in float64, so that
    neither threads nor the blocking of a product can change the order.
    """
    keys = np.ascontiguousarray(members.keys)
    live = np.ones(len(keys), dtype=bool)
    searched = SearchedRows(keys, members.ids, live, bound_length(keys))
    result = find_nearest_rows(queries.keys, searched, depth, queries.ids)
    return Neighbors(result.ids, result.cosines.astype(np.float32))


def find_nearest_rows(
    queries: np.ndarray,
    searched: SearchedRows,
    depth: int,
    query_ids: np.ndarray | None = None,
) -> NearestRows:
    """The `depth` nearest live rows to queries (Q, d) float32.

    They are sorted by descending cosine, then by ascending id.

    query_ids: (Q,); the row with a query's own id, whose key is the query, comes first.
    """
    shape = (len(queries), depth)
    result = NearestRows(np.full(shape, NOBODY), np.full(shape, NOBODY), np.zeros(shape))
    if not len(searched.keys):
        return result
    if query_ids is None:
        query_ids = np.full(len(queries), NOBODY)
    search = _Search(np.ascontiguousarray(queries), query_ids, searched, depth, result)
    for start in range(0, len(queries), QUERIES):
        places = np.arange(start, min(start + QUERIES, len(queries)))
        # faiss is slower for few queries, and of no use if all rows are candidates.
        if len(places) > FEW and search.candidates < len(searched.keys):
            places = search.search_candidates(places)
        for few in range(0, len(places), FEW):
            search.search_all_rows(places[few : few + FEW])
    return result


@dataclass(frozen=True)
class _Search:
    """A search in progress, which fills in `result`. places: positions of queries."""

    queries: np.ndarray
    query_ids: np.ndarray
    searched: SearchedRows
    depth: int
    result: NearestRows

    @property
    def candidates(self) -> int:
        """Number of candidates per query: more than `depth`, so that few ties need all rows."""
        return 2 * self.depth + 16

    def search_candidates(self, places: np.ndarray) -> np.ndarray:
        """Keep the best of faiss's candidates. Returns queries that need `search_all_rows`.

        Deleted rows take up candidates, too: faiss does not know which they are.
        """
        import faiss

        # By default faiss uses BLAS from 128,000 / d queries on; at d = 768, 64 queries took 7
        # times as long without it. faiss multiplies 1,024 rows at a time, and its threads wait for
        # each other after each product: on two busy cores, fewer and larger products took a
        # quarter of the time, on one core the same.
        faiss.cvar.distance_compute_blas_threshold = 1
        faiss.cvar.distance_compute_blas_database_bs = ROWS_IN_A_PRODUCT
        products, rows = faiss.knn(
            self.queries[places],
            self.searched.keys,
            self.candidates,
            faiss.METRIC_INNER_PRODUCT,
        )
        last_cosines = self.keep_nearest(places, rows)
        # No other row has a larger product than the last candidate, nor a cosine above this limit.
        limits = products[:, -1].astype(np.float64) + self.bound_errors(places)
        is_decided = limits < last_cosines  # False for NaN, so these queries are searched again
        return places[~is_decided]

    def search_all_rows(self, places: np.ndarray) -> None:
        """Keep the nearest of all rows. Repeats queries for which one was deleted meanwhile."""
        keys = np.asarray(self.searched.keys)
        while len(places):
            with np.errstate(over="ignore", invalid="ignore"):
                if len(places) == 1:
                    # Here reading the keys takes the time, and threads of a BLAS slow it down.
                    products = np.einsum("qd,nd->qn", self.queries[places], keys)
                else:
                    products = self.queries[places] @ keys.T
            live = np.array(self.searched.live)
            products[:, ~live] = -np.inf
            deleted_meanwhile = np.zeros(len(places), dtype=bool)
            margins = self.bound_errors(places)
            for number, place in enumerate(places):
                own_id = self.query_ids[place]
                rows = self.find_near_rows(products[number], float(margins[number]), own_id)
                rows = rows[live[rows]]
                self.keep_nearest(places[number : number + 1], rows[None])
                deleted_meanwhile[number] = not self.searched.live[rows].all()
            places = places[deleted_meanwhile]

    def find_near_rows(self, products: np.ndarray, margin: float, own_id: int) -> np.ndarray:
        """The rows, ascending, that may be among the nearest, by products (N,) with a query."""
        depth = min(self.depth, len(products))
        # With p the depth-th largest product, `depth` rows have cosines of at least p - margin,
        # and a row's cosine is at most its product + margin. So a row with a product below p - 2
        # margin is not among the nearest. Not a number (inf - inf) excludes nothing.
        threshold = float(np.partition(products, -depth)[-depth]) - 2 * margin
        may_be_near = ~(products < threshold)
        if own_id != NOBODY:
            may_be_near |= self.searched.ids == own_id
        return np.flatnonzero(may_be_near)

    def keep_nearest(self, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Fill in the best of the candidates `rows` (Q, C).

        Returns the cosine of the last one (Q,), -inf for a query with too few.
        """
        cosines = self.compute_cosines(places, rows)
        ids = self.searched.ids[rows]
        # Read after the keys: the key of a row that is live now had not been overwritten then.
        is_live = self.searched.live[rows] & (rows != NOBODY)
        is_query = ids == self.query_ids[places, None]
        score = cosines + 10.0 * is_query  # 10 is above any cosine: the query itself comes first
        score[~is_live] = -np.inf
        order = np.lexsort((ids, -score), axis=-1)[:, : self.depth]
        is_live = np.take_along_axis(is_live, order, axis=1)
        columns = order.shape[1]  # fewer than depth with few candidates
        for values, result, absent in (
            (rows, self.result.rows, NOBODY),
            (ids, self.result.ids, NOBODY),
            (cosines, self.result.cosines, 0),
        ):
            nearest_values = np.take_along_axis(values, order, axis=1)
            result[places] = absent
            result[places, :columns] = np.where(is_live, nearest_values, absent)
        is_full = self.result.rows[places, -1] != NOBODY
        return np.where(is_full, self.result.cosines[places, -1], -np.inf)

    def compute_cosines(self, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Cosines (Q, C) of candidates, in float64."""
        queries = self.queries[places].astype(np.float64)
        step = max(1, ROWS_IN_FLOAT64 // len(places))
        parts = [np.zeros((len(places), 0))]
        for start in range(0, rows.shape[1], step):
            keys = self.searched.keys[rows[:, start : start + step]].astype(np.float64)
            parts.append(np.einsum("qd,qcd->qc", queries, keys))
        return np.concatenate(parts, axis=1)

    def bound_errors(self, places: np.ndarray) -> np.ndarray:
        """Bounds (Q,) on the error of a query's float32 products; inf if they may overflow."""
        lengths = np.linalg.norm(self.queries[places].astype(np.float64), axis=1)
        largest_product = lengths * self.searched.max_length
        margin = self.queries.shape[1] * 2.0**-23 * largest_product + TINY  # Higham, see above
        return np.where(largest_product < np.finfo(np.float32).max / 2, margin, np.inf)


def bound_length(keys: np.ndarray) -> float:
    """A length that no key exceeds: that of the longest, computed in float32, plus its rounding."""
    if not len(keys):
        return 0.0
    with np.errstate(over="ignore"):
        squares = np.einsum("nd,nd->n", keys, keys)
    return 1.01 * float(np.sqrt(squares.max())) + 1e-17


def drop_self(neighbors: Neighbors, member_ids: np.ndarray, count: int) -> Neighbors:
    """The `count` nearest others of each member of the memory, (M, count)."""
    is_other = neighbors.ids != member_ids[:, None]
    order = np.argsort(~is_other, axis=1, kind="stable")[:, :count]  # the member itself goes last
    ids = np.take_along_axis(np.where(is_other, neighbors.ids, NOBODY), order, axis=1)
    cosines = np.take_along_axis(np.where(is_other, neighbors.cosines, 0.0), order, axis=1)
    return Neighbors(ids, cosines.astype(np.float32))


def write(path: str | Path, ids: np.ndarray, neighbors: Neighbors) -> None:
    """Write the neighbors of the samples `ids` (Q,)."""
    write_npz(path, {"ids": ids, "neighbor_ids": neighbors.ids, "cosines": neighbors.cosines})


def read(path: str | Path, ids: np.ndarray) -> Neighbors:
    """The neighbors of the samples `ids`, in their order.

    Raises DamagedFileError, or KeyError for an unknown id.
    """
    arrays = read_npz(path, "ids", "neighbor_ids", "cosines")
    if not len(arrays["ids"]) == len(arrays["neighbor_ids"]) == len(arrays["cosines"]):
        raise DamagedFileError(path, "its arrays differ in length")
    return Neighbors(arrays["neighbor_ids"], arrays["cosines"]).select(
        find_rows(arrays["ids"], ids)
    )


def read_other_neighbors(path: str | Path, ids: np.ndarray, count: int) -> Neighbors:
    """The `count` nearest others of each member of the memory, for training."""
    return drop_self(read(path, ids), ids, count)
