"""Nearest neighbors are exact: those of a float64 search over every row, self first, ties by rising id."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from munkey.core.files import DamagedFileError, write_npz
from munkey.core.ids import NO_NEIGHBOR
from munkey.encoders.keys import Keys
from munkey.memory import neighbors
from munkey.memory.neighbors import Neighbors, drop_self, find_nearest
from tests.conftest import unit_rows


def search_slowly(queries, members, depth):
    """The obvious search: sort all rows by (self first, falling cosine, rising id). Returns ids, and cosines."""
    lines = []
    for query_id, query in zip(queries.ids, queries.keys.astype(np.float64), strict=True):
        cosines = [float(np.sum(query * key)) for key in members.keys.astype(np.float64)]
        order = sorted(
            range(len(cosines)),
            key=lambda row: (members.ids[row] != query_id, -cosines[row], members.ids[row]),
        )[:depth]
        line = [(int(members.ids[row]), cosines[row]) for row in order]
        lines.append(line + [(NO_NEIGHBOR, 0.0)] * (depth - len(line)))
    table = np.array(lines).reshape(len(queries.ids), depth, 2)
    return table[..., 0], table[..., 1]


def check(queries, members, depth):
    ids, cosines = search_slowly(queries, members, depth)
    result = find_nearest(queries, members, depth)
    np.testing.assert_array_equal(result.ids, ids)
    np.testing.assert_allclose(result.cosines, cosines, atol=1e-6)
    assert result.ids.dtype == np.int64
    assert result.cosines.dtype == np.float32


def test_neighbors_equal_a_search_over_every_row():
    samples = Keys(np.arange(300), unit_rows(300, 16))
    check(samples, Keys(samples.ids[::2], samples.keys[::2]), 5)


@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 15), st.integers(0, 10**6))
@example(queries=2, members=0, depth=3, seed=0)
@example(queries=6, members=3, depth=5, seed=0)
def test_neighbors_equal_a_search_over_every_row_with_many_ties(queries, members, depth, seed):
    """Keys out of four directions only: nearly all cosines are tied. Some memories are empty or smaller than asked."""
    directions = np.eye(4, dtype=np.float32)[np.random.default_rng(seed).integers(4, size=12)]
    ids = 5 + 3 * np.arange(12)
    check(
        Keys(ids[:queries], directions[:queries]), Keys(ids[:members], directions[:members]), depth
    )


@given(st.integers(1, 6), st.integers(1, 40), st.integers(0, 10**6))
def test_a_deeper_search_finds_the_same_first_ones_to_the_bit(depth, more, seed):
    """So training, which reads the first ones, does not depend on keys.depth."""
    generator = np.random.default_rng(seed)
    keys = unit_rows(60, 12)[generator.integers(0, 60, size=80)]  # some are equal
    members = Keys(np.arange(80), keys)
    queries = Keys(np.arange(60, 90), np.concatenate([keys[60:], unit_rows(10, 12)]))
    shallow = find_nearest(queries, members, depth)
    deep = find_nearest(queries, members, depth + more).truncate(depth)
    np.testing.assert_array_equal(shallow.ids, deep.ids)
    np.testing.assert_array_equal(shallow.cosines, deep.cosines)


def test_a_member_finds_itself_first_among_more_equals_than_candidates():
    equals = Keys(np.arange(400), np.repeat(unit_rows(1, 8), 400, axis=0))
    ids, _ = find_nearest(equals, equals, 3)
    assert ids[0].tolist() == [0, 1, 2]
    assert ids[399].tolist() == [399, 0, 1]


def test_tied_neighbors_are_found_by_rising_id():
    one, other = unit_rows(2, 8)
    members = Keys(np.arange(600), np.repeat([one, other], 300, axis=0))
    query = (one + 0.1 * other) / np.linalg.norm(one + 0.1 * other)
    ids, _ = find_nearest(Keys(np.array([-5]), query[None].astype(np.float32)), members, 4)
    assert ids[0].tolist() == [0, 1, 2, 3]


def test_two_queries_of_one_block_find_crowds_at_different_distances():
    """The first query's crowd is nearer than the second one's: its radius would find none for the second."""
    members = Keys(np.arange(80), np.repeat(np.eye(2, dtype=np.float32), 40, axis=0))
    queries = Keys(np.array([-5, -4]), np.array([[1, 0], [0.6, 0.8]], dtype=np.float32))
    ids, cosines = find_nearest(queries, members, 4)
    assert ids.tolist() == [[0, 1, 2, 3], [40, 41, 42, 43]]
    np.testing.assert_allclose(cosines, [[1] * 4, [0.8] * 4], rtol=1e-6)


TINY = 2.0**-13  # its square is lost beside 1 in float32, and not in float64


def test_cosines_are_compared_in_float64():
    members = Keys(np.arange(2), np.array([[1, 0], [1, TINY]], dtype=np.float32))
    ids, _ = find_nearest(Keys(np.array([-5]), np.array([[1, TINY]], dtype=np.float32)), members, 2)
    assert ids.tolist() == [[1, 0]]


def test_rows_that_float32_cannot_order_are_ordered_behind_the_sample_itself():
    """The sample finds itself at cosine 1; the last ten of the crowd at 0.8 are nearest, by less than float32 tells."""
    crowd = np.tile(np.array([0.8, 0, 0.6], dtype=np.float32), (300, 1))
    crowd[290:, 1] = TINY
    query = np.array([[1, TINY, 0]], dtype=np.float32)
    members = Keys(np.arange(301), np.vstack([crowd, query]))
    assert len(set((members.keys[:300] @ query[0]).tolist())) == 1
    ids, _ = find_nearest(Keys(np.array([300]), query), members, 4)
    assert ids.tolist() == [[300, 290, 291, 292]]


def test_neighbors_are_selected_by_query_and_truncated():
    table = Neighbors(np.arange(6).reshape(3, 2), np.arange(6).reshape(3, 2) / 10)
    assert [part.tolist() for part in table.select(np.array([2, 0]))] == [
        [[4, 5], [0, 1]],
        [[0.4, 0.5], [0.0, 0.1]],
    ]
    assert [part.tolist() for part in table.truncate(1)] == [[[0], [2], [4]], [[0.0], [0.2], [0.4]]]


def test_a_sample_is_dropped_from_its_neighbors_wherever_it_stands():
    """The last one has no neighbor but itself."""
    absent = [NO_NEIGHBOR] * 3
    ids = np.array([[1, 7, 8, 9], [2, 1, 7, 9], [7, 8, *absent[:2]], [4, *absent]])
    cosines = np.array(
        [[1, 0.9, 0.8, 0.7], [0.9, 0.9, 0.8, 0.7], [0.9, 0.8, 0, 0], [1, 0, 0, 0]], dtype=np.float32
    )
    others = drop_self(Neighbors(ids, cosines), np.array([1, 1, 3, 4]), 3)
    assert others.ids.tolist() == [[7, 8, 9], [2, 7, 9], [7, 8, NO_NEIGHBOR], absent]
    np.testing.assert_allclose(
        others.cosines, [[0.9, 0.8, 0.7], [0.9, 0.8, 0.7], [0.9, 0.8, 0], [0, 0, 0]], rtol=1e-6
    )
    assert others.cosines.dtype == np.float32
    whole = drop_self(Neighbors(ids, cosines), np.array([1, 1, 3, 4]), 4)
    assert whole.ids[:, -1].tolist() == [*absent, NO_NEIGHBOR]
    assert not whole.cosines[:, -1].any()


def test_dropping_a_sample_keeps_the_order_of_long_rows():
    """Rows longer than those that numpy sorts by insertion, which would keep the order by itself."""
    ids = np.tile(np.arange(100), (100, 1))
    cosines = np.tile(np.linspace(1, 0, 100, dtype=np.float32), (100, 1))
    others = drop_self(Neighbors(ids, cosines), np.arange(100), 99)
    for member in range(100):
        np.testing.assert_array_equal(others.ids[member], np.delete(ids[member], member))
        np.testing.assert_array_equal(others.cosines[member], np.delete(cosines[member], member))


def test_neighbors_for_training_never_hold_the_sample_itself(tmp_path):
    samples = Keys(np.arange(30), unit_rows(30, 4))
    neighbors.write_neighbors(tmp_path / "n.npz", samples.ids, find_nearest(samples, samples, 6))
    others = neighbors.read_other_neighbors(tmp_path / "n.npz", samples.ids, 5)
    assert others.ids.shape == others.cosines.shape == (30, 5)
    assert not (others.ids == samples.ids[:, None]).any()
    np.testing.assert_array_equal(others.ids, search_slowly(samples, samples, 6)[0][:, 1:])


def test_neighbors_are_read_in_the_order_asked_for(tmp_path):
    table = Neighbors(np.array([[20], [40], [60]]), np.array([[0.2], [0.4], [0.6]]))
    neighbors.write_neighbors(tmp_path / "n.npz", np.array([2, 4, 6]), table)
    ids, cosines = neighbors.read_neighbors(tmp_path / "n.npz", np.array([6, 2]))
    assert ids.tolist() == [[60], [20]]
    assert cosines.tolist() == [[0.6], [0.2]]
    with pytest.raises(KeyError, match="3"):
        neighbors.read_neighbors(tmp_path / "n.npz", np.array([3]))


@pytest.mark.parametrize("shorter", ["ids", "neighbor_ids", "cosines"])
def test_neighbors_that_do_not_fit_together_are_refused(tmp_path, shorter):
    arrays = {"ids": np.arange(3), "neighbor_ids": np.ones((3, 1)), "cosines": np.ones((3, 1))}
    write_npz(tmp_path / "n.npz", arrays | {shorter: arrays[shorter][:2]})
    with pytest.raises(DamagedFileError, match=r"n\.npz.*differ in length"):
        neighbors.read_neighbors(tmp_path / "n.npz", np.arange(2))
