"""The one search equals a float64 look at all live rows, whatever float32 cannot tell apart and whatever is deleted."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munkey.core.ids import NO_NEIGHBOR
from munkey.memory import neighbors
from munkey.memory.memory import bound_length
from munkey.memory.neighbors import SearchedRows, find_nearest_rows
from tests.conftest import unit_rows


def searched_rows(
    keys: np.ndarray, ids: np.ndarray | None = None, live: np.ndarray | None = None
) -> SearchedRows:
    if ids is None:
        ids = np.arange(len(keys))
    if live is None:
        live = np.ones(len(keys), dtype=bool)
    return SearchedRows(keys, ids, live, bound_length(keys))


def search_by_brute_force(
    queries: np.ndarray, searched: SearchedRows, depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sort all live rows by falling float64 cosine and rising id. Returns rows, and cosines."""
    rows = np.full((len(queries), depth), NO_NEIGHBOR)
    cosines = np.zeros((len(queries), depth))
    live = np.flatnonzero(searched.live)
    for place, query in enumerate(queries.astype(np.float64)):
        products = np.einsum("d,nd->n", query, searched.keys[live].astype(np.float64))
        order = np.lexsort((searched.ids[live], -products))[:depth]
        rows[place, : len(order)] = live[order]
        cosines[place, : len(order)] = products[order]
    return rows, cosines


def check(queries: np.ndarray, searched: SearchedRows, depth: int) -> None:
    rows, cosines = search_by_brute_force(queries, searched, depth)
    result = find_nearest_rows(queries, searched, depth)
    np.testing.assert_array_equal(result.rows, rows)
    ids = np.append(searched.ids, NO_NEIGHBOR)  # the last one where there is no row
    np.testing.assert_array_equal(result.ids, ids[rows])
    np.testing.assert_array_equal(result.cosines, cosines)


def close_directions(count: int, width: int, seed: int) -> np.ndarray:
    """Unit vectors around few directions, at distances from none to what float32 tells apart, some repeated, some 0."""
    random = np.random.default_rng(seed)
    around = random.normal(size=(3, width))[random.integers(3, size=count)]
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    distances = random.choice([0, 1e-8, 1e-7, 1e-5, 1e-3, 1e-2], size=(count, 1))
    vectors = around + distances * random.normal(size=(count, width))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    vectors[random.random(count) < 0.05] = 0
    return vectors[random.integers(count, size=count)]


@pytest.fixture
def looks_at_all(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of queries that were compared with all rows."""
    counts: list[int] = []
    look_at_all = neighbors._Search.search_all_rows

    def counting(search: neighbors._Search, places: np.ndarray) -> None:
        counts.append(len(places))
        look_at_all(search, places)

    monkeypatch.setattr(neighbors._Search, "search_all_rows", counting)
    return counts


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    """So that a few hundred rows take several blocks, and a few queries go through faiss."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbors, "QUERY_BLOCK", 16)
        patch.setattr(neighbors, "SMALL_QUERY_BLOCK", 3)
        patch.setattr(neighbors, "FLOAT64_BLOCK", 64)
        patch.setattr(neighbors, "ROWS_PER_PRODUCT", 64)
        yield


@given(
    members=st.integers(0, 400), width=st.sampled_from([1, 2, 5, 16, 100]), dead=st.sampled_from([0, 0.1, 0.9, 1]),
    zeroed=st.booleans(), queries=st.integers(0, 40), depth=st.integers(1, 9), seed=st.integers(0, 10**6),
)  # fmt: skip
def test_the_search_equals_brute_force(members, width, dead, zeroed, queries, depth, seed):
    random = np.random.default_rng(seed)
    vectors = np.zeros((0, width), np.float32)
    if members + queries:
        vectors = close_directions(members + queries, width, seed)
    keys = vectors[:members].copy()
    ids = random.permutation(members * 3)[:members]
    live = random.random(members) >= dead
    if zeroed:
        keys[~live] = 0
    check(vectors[members:], searched_rows(keys, ids, live), depth)


def test_queries_whose_neighbors_are_far_apart_need_one_look(looks_at_all):
    check(unit_rows(300, 20, seed=1)[:272], searched_rows(unit_rows(1000, 20)), 3)
    assert not looks_at_all


@pytest.mark.parametrize("zeroed", [False, True])
def test_a_few_deleted_rows_do_not_need_a_second_look(zeroed, looks_at_all):
    """They take up candidates, of which there are enough to spare."""
    keys = unit_rows(1000, 20)
    live = np.ones(1000, dtype=bool)
    live[::50] = False
    if zeroed:
        keys[~live] = 0
    check(unit_rows(16, 20, seed=1), searched_rows(keys, None, live), 3)
    assert not looks_at_all


def test_deleted_rows_that_take_up_all_candidates_hide_no_neighbor(looks_at_all):
    crowd = np.repeat(unit_rows(1, 8), 500, axis=0)
    live = np.arange(600) >= 500
    keys = np.vstack([crowd, unit_rows(100, 8, seed=1)])
    queries = unit_rows(1, 8).repeat(16, axis=0)
    check(queries, searched_rows(keys, None, live), 4)
    assert sum(looks_at_all) == 16


def near_ties() -> tuple[np.ndarray, np.ndarray]:
    """Queries, and 300 rows at cosines that differ in the eleventh digit, below what float32 holds, shuffled."""
    cosines = np.random.default_rng(0).permutation(300) * 2.0**-34
    keys = np.column_stack([np.full(300, 0.8), cosines, np.full(300, 0.6)]).astype(np.float32)
    return np.tile(np.array([[1, 1, 0]], dtype=np.float32), (16, 1)), keys


def test_rows_that_float32_cannot_order_need_a_second_look(looks_at_all):
    queries, keys = near_ties()
    assert len(np.unique(keys @ queries[0])) == 1
    check(queries, searched_rows(keys), 4)
    assert sum(looks_at_all) == 16


def test_without_the_margin_near_ties_would_be_missed(monkeypatch):
    monkeypatch.setattr(
        neighbors._Search, "bound_errors", lambda search, places: np.full(len(places), -1.0)
    )
    queries, keys = near_ties()
    with pytest.raises(AssertionError):
        check(queries, searched_rows(keys), 4)


@given(st.integers(1, 300), st.floats(-3, 3), st.integers(0, 10**6))
def test_a_product_is_never_further_off_than_the_margin(width, exponent, seed):
    import faiss

    random = np.random.default_rng(seed)
    queries = (10**exponent * random.standard_t(2, size=(20, width))).astype(np.float32)
    keys = random.standard_t(2, size=(30, width)).astype(np.float32)
    wide = queries.astype(np.float64) @ keys.astype(np.float64).T
    search = neighbors._Search(queries, np.full(20, NO_NEIGHBOR), searched_rows(keys), 3, None)
    margins = search.bound_errors(np.arange(20))[:, None]
    assert (np.abs(queries @ keys.T - wide) <= margins).all()
    products, rows = faiss.knn(queries, keys, 30, faiss.METRIC_INNER_PRODUCT)
    assert (np.abs(products - np.take_along_axis(wide, rows, axis=1)) <= margins).all()


@pytest.mark.parametrize("size", [1e-30, 1e-25, 1e-12, 1e12, 1e25, 1e38])
@pytest.mark.parametrize("scale", [1, 1e10])
def test_keys_and_queries_of_any_length_are_sorted_exactly(size, scale):
    """Also where float32 products underflow, or overflow to infinity and NaN."""
    random = np.random.default_rng(0)
    keys = (size * random.uniform(-1, 1, size=(300, 7))).astype(np.float32)
    check((scale * unit_rows(16, 7)).astype(np.float32), searched_rows(keys), 3)


@pytest.mark.parametrize("count", [0, 2])
def test_a_memory_of_fewer_rows_than_wanted_gives_all_of_them(count):
    live = np.arange(90) < count
    queries = unit_rows(12, 8, seed=1)
    check(queries, searched_rows(unit_rows(90, 8), None, live), 5)


def test_without_queries_or_rows_no_neighbor_is_found():
    without_queries = find_nearest_rows(unit_rows(0, 8), searched_rows(unit_rows(90, 8)), 5)
    assert without_queries.rows.shape == (0, 5)
    without_rows = find_nearest_rows(unit_rows(12, 8), searched_rows(unit_rows(0, 8)), 5)
    assert (without_rows.rows == NO_NEIGHBOR).all()


def test_a_read_only_map_of_a_file_is_searched_as_it_is(tmp_path: Path):
    unit_rows(500, 16).tofile(tmp_path / "keys")
    live = np.random.default_rng(0).random(500) > 0.3
    live.tofile(tmp_path / "live")
    mapped = np.memmap(tmp_path / "keys", "<f4", "r", shape=(500, 16))
    mapped_live = np.memmap(tmp_path / "live", bool, "r", shape=(500,))
    for count in (1, 40):
        queries = unit_rows(count, 16, seed=1)
        check(queries, searched_rows(mapped, np.arange(500)[::-1], mapped_live), 4)
