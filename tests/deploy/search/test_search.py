"""Search over a memory on disk: exact below a size, by lists above it, and nothing that is deleted answers."""

import numpy as np
import pytest

from munkey.deploy.search import exact, lists
from munkey.deploy.search.search import Search
from munkey.deploy.store.errors import ClosedMemoryError
from munkey.deploy.store.store import Store
from munkey.settings import LookupSettings
from tests.conftest import unit_rows
from tests.deploy.search.inputs import expected

WIDTH, COUNT = 12, 600
EXACT = LookupSettings(approximate_from=10_000, lists=8, probes=8)
SOME = LookupSettings(approximate_from=100, lists=8, probes=4)
ALL = LookupSettings(approximate_from=100, lists=8, probes=8)
QUERIES = unit_rows(30, WIDTH, seed=1)
STRANGERS = unit_rows(400, WIDTH, seed=2)


@pytest.fixture
def store(folder):
    ids = np.random.default_rng(0).permutation(COUNT)
    with Store.create(folder, ids, unit_rows(COUNT, WIDTH), ids[:, None].astype(np.float32)) as store:
        yield store


def check(search, store, depth=4):
    """Its answers are the exact ones, and their rows hold the tokens of these ids."""
    found, wanted = search.nearest(QUERIES, depth), expected(store.view, QUERIES, depth)
    np.testing.assert_array_equal(found.neighbors.ids, wanted.ids)
    np.testing.assert_array_equal(found.neighbors.cosines, wanted.cosines)
    assert found.neighbors.cosines.dtype == np.float32
    copied = found.view.copy(found.rows)
    assert copied.live.all() and np.array_equal(copied.tokens[..., 0], found.neighbors.ids)


@pytest.mark.parametrize("settings", [EXACT, SOME], ids=["small", "without an index"])
def test_a_memory_that_is_small_or_without_an_index_is_searched_exactly(settings, store):
    check(Search(store, settings), store)


def test_looking_at_all_lists_is_exact(store, monkeypatch):
    search, asked = Search(store, ALL), []
    search.build(STRANGERS)
    monkeypatch.setattr(lists, "near", lambda *of, near=lists.near: (asked.append(1), near(*of))[1])
    check(search, store)
    assert asked


def test_looking_at_half_of_the_lists_finds_most(store):
    search = Search(store, SOME)
    search.build(STRANGERS)
    found, wanted = search.nearest(QUERIES, 4).neighbors.ids, expected(store.view, QUERIES, 4).ids
    share = np.mean([np.isin(mine, theirs).mean() for mine, theirs in zip(found, wanted, strict=True)])
    assert 0.6 < share < 1


@pytest.mark.parametrize("settings", [EXACT, ALL], ids=["exact", "by lists"])
@pytest.mark.parametrize("then", ["", "purge", "compact"])
def test_deleted_rows_never_answer_and_added_ones_do(settings, then, store):
    search = Search(store, settings)
    search.build(STRANGERS)
    for _ in range(3):
        best = search.nearest(QUERIES, 4).neighbors.ids
        store.delete(np.unique(best[:, :2]))
        if then:
            getattr(store, then)()
        check(search, store)
    added = np.arange(5000, 5030)
    store.add(added, QUERIES, added[:, None].astype(np.float32))
    check(search, store)
    assert search.nearest(QUERIES, 1).neighbors.ids[:, 0].tolist() == added.tolist()
    store.delete(added)
    check(search, store)


def test_an_index_that_is_older_than_deletions_returns_none_of_them(store, folder):
    search = Search(store, ALL)
    search.build(STRANGERS)
    file = folder / "generation-1" / "index"
    old = file.read_bytes()
    store.delete(search.nearest(QUERIES, 4).neighbors.ids[:, 0])
    store.purge()
    file.write_bytes(old)
    assert store.read_index().moment.sequence == 0
    check(search, store)


def test_only_rows_that_the_index_does_not_cover_are_searched_exactly(store, monkeypatch):
    search, firsts, searched = Search(store, ALL), [], exact.nearest
    search.build(STRANGERS)
    store.add([9000], QUERIES[:1], [[9000.0]])
    store.delete([int(store.view.ids[3])])
    store.compact()
    monkeypatch.setattr(exact, "nearest", lambda *of, first=0: (firsts.append(first), searched(*of, first))[1])
    check(search, store)
    assert firsts == [COUNT - 1]
    search.build()
    check(search, store)
    assert firsts == [COUNT - 1, COUNT]


def test_an_index_takes_up_new_rows_and_none_is_made_where_there_was_none(store, monkeypatch):
    search = Search(store, ALL)
    search.extend()
    assert store.read_index() is None
    search.build(STRANGERS)
    store.add([9000], QUERIES[:1], [[9000.0]])
    search.extend()
    assert store.read_index().covered == COUNT + 1
    monkeypatch.setattr(Search, "build", lambda _: pytest.fail("it lacks nothing"))
    search.extend()


def test_a_reader_follows_a_writer_in_deletions_additions_and_its_index(store, folder):
    with Store.open(folder) as reader:
        search = Search(reader, ALL)
        check(search, store)
        Search(store, ALL).build(STRANGERS)
        check(search, store)
        store.delete(search.nearest(QUERIES, 4).neighbors.ids[:, 0])
        check(search, store)
        store.compact()
        check(search, store)
        store.add([9000], QUERIES[:1], [[9000.0]])
        check(search, store)
        with pytest.raises(ClosedMemoryError, match="reading only"):
            search.build(STRANGERS)


def test_a_compaction_during_a_search_starts_it_again(store, monkeypatch):
    searched, compacted = exact.nearest, []

    def compacting(*of):
        found = searched(*of)
        if not compacted:
            compacted.append(store.compact())
        return found

    monkeypatch.setattr(exact, "nearest", compacting)
    check(Search(store, EXACT), store)
    assert compacted


def test_centroids_are_not_made_of_rows_of_the_memory(store):
    search, members = Search(store, SOME), np.array(store.view.keys[5:7])
    with pytest.raises(ValueError, match=r"^2 of these vectors are keys of the memory"):
        search.build(np.concatenate([STRANGERS, members]))
    assert store.read_index() is None
    store.delete(store.view.ids[5:7])
    search.build(np.concatenate([STRANGERS, members]))


def test_vectors_that_make_no_centroids_are_refused(store):
    search = Search(store, SOME)
    with pytest.raises(ValueError, match="7 vectors are too few for 8 lists"):
        search.build(STRANGERS[:7])
    with pytest.raises(ValueError, match="no index yet"):
        search.build()


@pytest.mark.parametrize(
    ("queries", "depth", "why"),
    [
        (QUERIES[:, :5], 4, "shape"),
        (QUERIES[0], 4, "shape"),
        (QUERIES.astype(np.float64), 4, "float64"),
        (np.where(QUERIES > 0, np.nan, QUERIES).astype(np.float32), 4, "NaN"),
        (QUERIES, 0, "ask for at least one"),
    ],
)
def test_queries_of_another_form_are_refused(queries, depth, why, store):
    with pytest.raises(ValueError, match=why):
        Search(store, EXACT).nearest(queries, depth)


def test_rows_in_lists_are_those_nearest_to_their_centroid(store):
    Search(store, ALL).build(STRANGERS)
    index = store.read_index()
    cosines = store.view.keys @ index.centroids.T
    for number in range(8):
        rows = index.members(number)
        assert (cosines[rows, number] >= cosines[rows].max(axis=1) - 0.02).all()


def test_empty_lists_and_empty_memories_answer(store):
    search = Search(store, ALL)
    search.build(STRANGERS)
    gone = store.read_index().members(0)
    store.delete(store.view.ids[gone])
    check(search, store)
    store.delete(store.view.ids[store.view.live])
    assert (search.nearest(QUERIES, 4).rows == -1).all()


def test_a_query_whose_lists_hold_too_few_rows_is_searched_exactly(store):
    search = Search(store, LookupSettings(approximate_from=100, lists=8, probes=1))
    search.build(STRANGERS)
    index, ids = store.read_index(), store.view.ids
    store.delete(np.delete(ids, np.concatenate([index.members(number)[:2] for number in range(8)])))
    check(search, store)  # 2 in the list that is looked at, where 4 are asked for
