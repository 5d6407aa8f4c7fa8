"""The one exact search for nearest neighbors by cosine, and the neighbors that the pipeline keeps on disk.

faiss chooses candidates by float32 products, which float64 then puts in order. A float32 product of d terms, summed in
any order, differs from q.k by at most d * 2^-23 * |q| |k| (Higham, Accuracy and Stability of Numerical Algorithms,
sec. 3.1, with a factor of 2 to spare). Where that leaves open whether another row is as near, all rows are looked at.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import DamagedFileError, read_npz, write_npz
from munkey.core.ids import NOBODY, rows_of
from munkey.encoders.keys import Keys

QUERIES = 256  # at once
FEW = 16  # queries whose products with all rows are held at once
ROWS_IN_A_PRODUCT = 16_384
ROWS_IN_FLOAT64 = 16_384  # at once
TINY = 1e-30  # far above what a product loses where float32 underflows


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


class SearchedRows(NamedTuple):
    """The rows of a search, in arrays or memory maps. A row that is no longer live does not answer.

    keys: (N, d) float32; ids: (N,) int64; live: (N,) bool, which another thread or process may clear during the search,
    before it overwrites the key; longest: no key is longer.
    """

    keys: np.ndarray
    ids: np.ndarray
    live: np.ndarray
    longest: float


class NearestRows(NamedTuple):
    """The nearest rows to each query, nearest first. rows, ids: (Q, K) int64; cosines: (Q, K) float64.

    With fewer than K live rows, rows and ids are NOBODY and cosines 0.
    """

    rows: np.ndarray
    ids: np.ndarray
    cosines: np.ndarray


def nearest(queries: Keys, members: Keys, depth: int) -> Neighbors:
    """The `depth` nearest members of a memory for each query.

    A query that is itself in the memory finds itself first; then by descending cosine, ties by ascending id. Cosines
    are compared in float64, so neither threads nor the blocking of a product can change the order.
    """
    keys = np.ascontiguousarray(members.keys)
    live = np.ones(len(keys), dtype=bool)
    searched = SearchedRows(keys, members.ids, live, longest(keys))
    result = nearest_rows(queries.keys, searched, depth, queries.ids)
    return Neighbors(result.ids, result.cosines.astype(np.float32))


def nearest_rows(
    queries: np.ndarray, searched: SearchedRows, depth: int, query_ids: np.ndarray | None = None
) -> NearestRows:
    """The `depth` nearest live rows to queries (Q, d) float32, by descending cosine, ties by ascending id.

    query_ids: (Q,); the row with a query's own id, which has the query as its key, comes first.
    """
    shape = (len(queries), depth)
    result = NearestRows(np.full(shape, NOBODY), np.full(shape, NOBODY), np.zeros(shape))
    if query_ids is None:
        query_ids = np.full(len(queries), NOBODY)
    search = _Search(np.ascontiguousarray(queries), query_ids, searched, depth, result)
    for start in range(0, len(queries) if len(searched.keys) else 0, QUERIES):
        places = np.arange(start, min(start + QUERIES, len(queries)))
        # Few products are quicker at once than through faiss, and a small memory is all candidates.
        if len(places) > FEW and search.candidates < len(searched.keys):
            places = search.look_first(places)
        for few in range(0, len(places), FEW):
            search.look_at_all(places[few : few + FEW])
    return result


@dataclass(frozen=True)
class _Search:
    """A search in progress. Places are those of queries; the result is filled in."""

    queries: np.ndarray
    query_ids: np.ndarray
    searched: SearchedRows
    depth: int
    result: NearestRows

    @property
    def candidates(self) -> int:
        """How many rows a first look considers for each query: with few to spare, near ties cost a second look."""
        return 2 * self.depth + 16

    def look_first(self, places: np.ndarray) -> np.ndarray:
        """Keep the best of the candidates that faiss chooses. Returns the queries that need a look at all rows.

        faiss sees dead rows too: they take up candidates, and no row that it left out has a larger product.
        """
        import faiss

        # By default faiss uses BLAS from 128,000 / d queries on; at d = 768, 64 queries took 7 times as long without.
        # It multiplies 1,024 rows at a time, and its threads wait for each other after each product: on two busy
        # cores, fewer and larger products took a quarter of the time, on one core the same.
        faiss.cvar.distance_compute_blas_threshold = 1
        faiss.cvar.distance_compute_blas_database_bs = ROWS_IN_A_PRODUCT
        queries = self.queries[places]
        products, rows = faiss.knn(queries, self.searched.keys, self.candidates, faiss.METRIC_INNER_PRODUCT)
        last = self.keep(places, rows)
        limit = products[:, -1].astype(np.float64) + self.margins(places)
        return places[~(limit < last)]

    def look_at_all(self, places: np.ndarray) -> None:
        """Keep the nearest of all rows, again where one was deleted meanwhile."""
        keys = np.asarray(self.searched.keys)
        while len(places):
            with np.errstate(over="ignore", invalid="ignore"):
                if len(places) == 1:  # waits for the keys to be read; the threads of a BLAS only get in its way
                    products = np.einsum("qd,nd->qn", self.queries[places], keys)
                else:
                    products = self.queries[places] @ keys.T
            live = np.array(self.searched.live)
            products[:, ~live] = -np.inf
            deleted_meanwhile = np.zeros(len(places), dtype=bool)
            margins = self.margins(places)
            for number, place in enumerate(places):
                rows = self.near_rows(products[number], float(margins[number]), self.query_ids[place])
                rows = rows[live[rows]]
                self.keep(places[number : number + 1], rows[None])
                deleted_meanwhile[number] = not self.searched.live[rows].all()
            places = places[deleted_meanwhile]

    def near_rows(self, products: np.ndarray, margin: float, own_id: int) -> np.ndarray:
        """The rows that may be among the nearest, by their products (N,) with a query, ascending."""
        depth = min(self.depth, len(products))
        # `depth` rows have cosines of at least this less a margin, and a row's cosine is at most its product and a
        # margin. What is not a number (inf - inf) excludes nothing.
        threshold = float(np.partition(products, -depth)[-depth]) - 2 * margin
        near = ~(products < threshold)
        if own_id != NOBODY:
            near |= self.searched.ids == own_id
        return np.flatnonzero(near)

    def keep(self, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Fill in the best of the candidates `rows` (Q, C). Returns the last one's cosine (Q,), -inf with too few."""
        cosines = self.cosines(places, rows)
        ids = self.searched.ids[rows]
        live = self.searched.live[rows] & (rows != NOBODY)  # looked at last: a key may have been overwritten before
        rank = cosines + 10.0 * (ids == self.query_ids[places, None])
        rank[~live] = -np.inf
        order = np.lexsort((ids, -rank), axis=-1)[:, : self.depth]
        kept = np.take_along_axis(live, order, axis=1)
        width = order.shape[1]
        self.result.rows[places] = NOBODY
        self.result.ids[places] = NOBODY
        self.result.cosines[places] = 0
        self.result.rows[places, :width] = np.where(kept, np.take_along_axis(rows, order, axis=1), NOBODY)
        self.result.ids[places, :width] = np.where(kept, np.take_along_axis(ids, order, axis=1), NOBODY)
        self.result.cosines[places, :width] = np.where(kept, np.take_along_axis(cosines, order, axis=1), 0)
        return np.where(self.result.rows[places, -1] == NOBODY, -np.inf, self.result.cosines[places, -1])

    def cosines(self, places: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Cosines (Q, C) of candidates, in float64."""
        queries = self.queries[places].astype(np.float64)
        step = max(1, ROWS_IN_FLOAT64 // len(places))
        parts = [np.zeros((len(places), 0))]
        for start in range(0, rows.shape[1], step):
            keys = self.searched.keys[rows[:, start : start + step]].astype(np.float64)
            parts.append(np.einsum("qd,qcd->qc", queries, keys))
        return np.concatenate(parts, axis=1)

    def margins(self, places: np.ndarray) -> np.ndarray:
        """How far a query's float32 products may lie from its cosines: (Q,); infinitely far if they may overflow."""
        reach = np.linalg.norm(self.queries[places].astype(np.float64), axis=1) * self.searched.longest
        margin = self.queries.shape[1] * 2.0**-23 * reach + TINY
        return np.where(reach < np.finfo(np.float32).max / 2, margin, np.inf)


def longest(keys: np.ndarray) -> float:
    """A length that no key exceeds: the longest in float32, and what its squares may have lost."""
    if not len(keys):
        return 0.0
    with np.errstate(over="ignore"):
        squares = np.einsum("nd,nd->n", keys, keys)
    return 1.01 * float(np.sqrt(squares.max())) + 1e-17


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
