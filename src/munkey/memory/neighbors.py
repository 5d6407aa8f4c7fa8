"""Exact search for nearest neighbors by cosine, and neighbor files on disk.

faiss selects candidates by their float32 products, which are then sorted in float64. A float32
product of d terms, summed in any order, differs from q.k by at most d * 2^-23 * |q| |k| (Higham,
Accuracy and Stability of Numerical Algorithms, sec. 3.1, with a safety factor of 2). If another row
could be as near as a candidate within that bound, the search compares all rows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import DamagedFileError, read_npz, write_npz
from munkey.core.ids import NOBODY, find_rows
from munkey.encoders.keys import Keys

QUERY_BLOCK = 256  # queries per block, which limits the memory for candidates
SMALL_QUERY_BLOCK = 16  # queries per block of products with all rows, which limits their memory
ROWS_PER_PRODUCT = 16_384  # see _Search.search_candidates
FLOAT64_BLOCK = 16_384  # rows per block, which limits the memory for float64 copies
UNDERFLOW_ERROR = 1e-30  # far above the error of a product that underflows in float32


class Neighbors(NamedTuple):
    """The nearest rows of a memory to each query, nearest first.

    ids: (Q, K) int64; cosines: (Q, K) float32. If the memory has fewer than K rows, the last ids
    are NOBODY and their cosines 0.
    """

    ids: np.ndarray
    cosines: np.ndarray

    def select(self, rows: np.ndarray) -> "Neighbors":
        """Return the neighbors of the queries at these positions."""
        return Neighbors(self.ids[rows], self.cosines[rows])

    def truncate(self, count: int) -> "Neighbors":
        """Return the `count` nearest neighbors of each query."""
        return Neighbors(self.ids[:, :count], self.cosines[:, :count])


class SearchedRows(NamedTuple):
    """The rows to search, in arrays or memory maps.

    keys: (N, d) float32; ids: (N,) int64; live: (N,) bool, false for deleted rows. Another thread
    or process may clear `live` during the search, before it overwrites the key. max_length: an
    upper bound of the keys' norms.
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
    """Find the `depth` nearest rows to each query, by descending cosine, then ascending id.

    If a query is itself in the memory, its own row comes first. Cosines are compared in float64, so
    that neither threads nor blocking can change the order.
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
    """Find the `depth` nearest live rows to queries (Q, d) float32.

    They are sorted by descending cosine, then by ascending id.

    query_ids: (Q,), the ids of the queries; a query's own row comes first.
    """
    shape = (len(queries), depth)
    result = NearestRows(
        rows=np.full(shape, NOBODY), ids=np.full(shape, NOBODY), cosines=np.zeros(shape)
    )
    if not len(searched.keys):
        return result
    if query_ids is None:
        query_ids = np.full(len(queries), NOBODY)
    search = _Search(np.ascontiguousarray(queries), query_ids, searched, depth, result)
    for start in range(0, len(queries), QUERY_BLOCK):
        places = np.arange(start, min(start + QUERY_BLOCK, len(queries)))
        # faiss is slower for few queries, and useless if all rows are candidates.
        if len(places) > SMALL_QUERY_BLOCK and search.candidates < len(searched.keys):
            places = search.search_candidates(places)
        for small_start in range(0, len(places), SMALL_QUERY_BLOCK):
            search.search_all_rows(places[small_start : small_start + SMALL_QUERY_BLOCK])
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
        """Number of candidates per query, more than `depth` so that ties rarely need all rows."""
        return 2 * self.depth + 16

    def search_candidates(self, places: np.ndarray) -> np.ndarray:
        """Keep the best of faiss's candidates. Returns the queries that need `search_all_rows`.

        Deleted rows also take up candidates, because faiss does not know which rows are deleted.
        """
        import faiss

        # By default, faiss uses BLAS from 128,000 / d queries on; at d = 768, 64 queries took 7
        # times as long without it. faiss multiplies 1,024 rows at a time, and its threads wait for
        # each other after each product. Fewer and larger products took a quarter of the time on two
        # busy cores, and the same time on one core.
        faiss.cvar.distance_compute_blas_threshold = 1
        faiss.cvar.distance_compute_blas_database_bs = ROWS_PER_PRODUCT
        products, rows = faiss.knn(
            self.queries[places],
            self.searched.keys,
            self.candidates,
            faiss.METRIC_INNER_PRODUCT,
        )
        last_cosines = self.keep_best_candidates(places, rows)
        # No other row has a larger product than the last candidate, so none exceeds this cosine.
        limits = products[:, -1].astype(np.float64) + self.bound_errors(places)
        is_decided = limits < last_cosines  # False for NaN, so these queries are searched again
        return places[~is_decided]

    def search_all_rows(self, places: np.ndarray) -> None:
        """Keep the nearest of all rows. Repeats the search if one of them is deleted meanwhile."""
        keys = np.asarray(self.searched.keys)
        while len(places):
            with np.errstate(over="ignore", invalid="ignore"):
                if len(places) == 1:
                    # Here, reading the keys takes most time, and a BLAS's threads slow it down.
                    products = np.einsum("qd,nd->qn", self.queries[places], keys)
                else:
                    products = self.queries[places] @ keys.T
            live = np.array(self.searched.live)
            products[:, ~live] = -np.inf
            must_repeat = np.zeros(len(places), dtype=bool)
            margins = self.bound_errors(places)
            for index, place in enumerate(places):
                rows = self.find_near_rows(
                    products[index], float(margins[index]), self.query_ids[place]
                )
                rows = rows[live[rows]]
                self.keep_best_candidates(places[index : index + 1], rows[None])
                # `live` is a copy; `self.searched.live` changes when another thread deletes a row.
                must_repeat[index] = not self.searched.live[rows].all()
            places = places[must_repeat]

    def find_near_rows(self, products: np.ndarray, margin: float, query_id: int) -> np.ndarray:
        """Return the rows, ascending, that may be among the nearest to a query.

        products: (N,), the products of its key with all keys; margin: their largest error.
        """
        depth = min(self.depth, len(products))
        # With p the depth-th largest product, `depth` rows have cosines of at least p - margin,
        # and a row's cosine is at most its product + margin. So a row with a product below p - 2
        # margin is not among the nearest. If the threshold is NaN (inf - inf), all rows stay: every
        # comparison with NaN is false.
        threshold = float(np.partition(products, -depth)[-depth]) - 2 * margin
        may_be_near = ~(products < threshold)
        if query_id != NOBODY:
            may_be_near |= self.searched.ids == query_id
        return np.flatnonzero(may_be_near)

    def keep_best_candidates(self, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Write the best `depth` candidates of `rows` (Q, C) to the result.

        Returns the cosine of each query's last row (Q,); -inf if it has fewer than `depth` rows.
        """
        cosines = self.compute_cosines(places, rows)
        ids = self.searched.ids[rows]
        # Read after the keys: if a row is live now, its key had not been overwritten when read.
        is_live = self.searched.live[rows] & (rows != NOBODY)
        is_query = ids == self.query_ids[places, None]
        score = cosines + 10.0 * is_query  # 10 is above any cosine: the query itself comes first
        score[~is_live] = -np.inf
        order = np.lexsort((ids, -score), axis=-1)[:, : self.depth]  # the last key sorts first
        is_live = np.take_along_axis(is_live, order, axis=1)
        columns = order.shape[1]  # fewer than depth with few candidates
        for candidate_values, result, absent in (
            (rows, self.result.rows, NOBODY),
            (ids, self.result.ids, NOBODY),
            (cosines, self.result.cosines, 0),
        ):
            best_values = np.take_along_axis(candidate_values, order, axis=1)
            result[places] = absent
            result[places, :columns] = np.where(is_live, best_values, absent)
        is_full = self.result.rows[places, -1] != NOBODY
        return np.where(is_full, self.result.cosines[places, -1], -np.inf)

    def compute_cosines(self, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the cosines (Q, C) of candidates, in float64."""
        queries = self.queries[places].astype(np.float64)
        step = max(1, FLOAT64_BLOCK // len(places))
        parts = [np.zeros((len(places), 0))]  # so that `concatenate` also works without candidates
        for start in range(0, rows.shape[1], step):
            keys = self.searched.keys[rows[:, start : start + step]].astype(np.float64)
            parts.append(np.einsum("qd,qcd->qc", queries, keys))
        return np.concatenate(parts, axis=1)

    def bound_errors(self, places: np.ndarray) -> np.ndarray:
        """Return a bound (Q,) on the error of each query's float32 products.

        It is inf if a product may overflow.
        """
        lengths = np.linalg.norm(self.queries[places].astype(np.float64), axis=1)
        largest_product = lengths * self.searched.max_length
        # Higham's bound, see above
        margin = self.queries.shape[1] * 2.0**-23 * largest_product + UNDERFLOW_ERROR
        return np.where(largest_product < np.finfo(np.float32).max / 2, margin, np.inf)


def bound_length(keys: np.ndarray) -> float:
    """Return an upper bound of the keys' norms."""
    if not len(keys):
        return 0.0
    with np.errstate(over="ignore"):
        squares = np.einsum("nd,nd->n", keys, keys)
    # Computed in float32: 1 % covers rounding, and 1e-17 covers keys whose squares underflow.
    return 1.01 * float(np.sqrt(squares.max())) + 1e-17


def drop_self(neighbors: Neighbors, member_ids: np.ndarray, count: int) -> Neighbors:
    """Return the `count` nearest other members for each member of the memory, (M, count)."""
    is_other = neighbors.ids != member_ids[:, None]
    # A stable sort moves the member itself to the end, and keeps the order of the others.
    order = np.argsort(~is_other, axis=1, kind="stable")[:, :count]
    ids = np.take_along_axis(np.where(is_other, neighbors.ids, NOBODY), order, axis=1)
    cosines = np.take_along_axis(np.where(is_other, neighbors.cosines, 0.0), order, axis=1)
    return Neighbors(ids, cosines.astype(np.float32))


def write(path: str | Path, ids: np.ndarray, neighbors: Neighbors) -> None:
    """Write the neighbors of the samples with these ids (Q,)."""
    write_npz(path, {"ids": ids, "neighbor_ids": neighbors.ids, "cosines": neighbors.cosines})


def read(path: str | Path, ids: np.ndarray) -> Neighbors:
    """Read the neighbors of samples, in the order of `ids`.

    Raises DamagedFileError for a damaged file, and KeyError for an unknown id.
    """
    arrays = read_npz(path, "ids", "neighbor_ids", "cosines")
    if not len(arrays["ids"]) == len(arrays["neighbor_ids"]) == len(arrays["cosines"]):
        raise DamagedFileError(path, "its arrays differ in length")
    neighbors = Neighbors(arrays["neighbor_ids"], arrays["cosines"])
    return neighbors.select(find_rows(arrays["ids"], ids))


def read_other_neighbors(path: str | Path, ids: np.ndarray, count: int) -> Neighbors:
    """Read the `count` nearest other members for each member of the memory, for training."""
    return drop_self(read(path, ids), ids, count)
