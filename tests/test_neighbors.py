"""Nearest neighbours are exact: those of a float64 search over every row, self first, ties by rising id."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munkey import neighbors
from munkey.files import DamagedFileError, write_npz
from munkey.neighbors import NOBODY, nearest, without_self
from tests.conftest import unit_rows


def by_hand(queries, query_ids, keys, ids, depth):
    """The obvious search: sort all rows by (self first, falling cosine, rising id)."""
    found = []
    for query, own in zip(queries.astype(np.float64), query_ids, strict=True):
        cosines = [float(np.sum(query * key)) for key in keys.astype(np.float64)]
        rows = sorted(range(len(ids)), key=lambda row: (ids[row] != own, -cosines[row], ids[row]))[:depth]
        found.append([(int(ids[row]), cosines[row]) for row in rows] + [(NOBODY, 0.0)] * (depth - len(rows)))
    return np.array(found).reshape(len(queries), depth, 2)


def check(queries, query_ids, keys, ids, depth):
    expected = by_hand(queries, query_ids, keys, ids, depth)
    found, cosines = nearest(queries, query_ids, keys, ids, depth)
    np.testing.assert_array_equal(found, expected[..., 0])
    np.testing.assert_allclose(cosines, expected[..., 1], atol=1e-6)
    assert (found.dtype, cosines.dtype) == (np.int64, np.float32)


def test_neighbours_equal_a_search_over_every_row():
    samples, ids = unit_rows(300, 16), np.arange(300)
    members = ids[::2]
    check(samples, ids, samples[members], members, 5)


@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 15), st.integers(0, 10**6))
def test_neighbours_equal_a_search_over_every_row_with_many_ties(queries, members, depth, seed):
    """Keys out of four directions only: nearly all cosines are tied."""
    directions = np.eye(4, dtype=np.float32)[np.random.default_rng(seed).integers(4, size=12)]
    ids = 5 + 3 * np.arange(12)
    check(directions[:queries], ids[:queries], directions[:members], ids[:members], depth)


def test_a_member_finds_itself_first_even_among_equals():
    keys, ids = np.repeat(unit_rows(1, 8), 10, axis=0), np.arange(10)
    found, cosines = nearest(keys, ids, keys, ids, 3)
    assert found[7].tolist() == [7, 0, 1]
    np.testing.assert_allclose(cosines, 1, atol=1e-6)


def test_a_member_finds_itself_first_among_more_equals_than_are_looked_at():
    keys, ids = np.repeat(unit_rows(1, 8), 400, axis=0), np.arange(400)
    found, _ = nearest(keys, ids, keys, ids, 3)
    assert found[0].tolist() == [0, 1, 2]
    assert found[399].tolist() == [399, 0, 1]


def test_of_many_tied_neighbours_those_with_the_lowest_ids_are_found():
    one, other = unit_rows(2, 8)
    keys = np.vstack([np.repeat(one[None], 300, axis=0), np.repeat(other[None], 300, axis=0)])
    query = (one + 0.1 * other) / np.linalg.norm(one + 0.1 * other)
    found, _ = nearest(query[None].astype(np.float32), np.array([-5]), keys, np.arange(600), 4)
    assert found[0].tolist() == [0, 1, 2, 3]


def test_a_query_outside_the_memory_does_not_find_itself():
    keys = unit_rows(6, 4)
    found, _ = nearest(keys, np.arange(6), keys[:3], np.arange(3), 3)
    assert sorted(found[5].tolist()) == [0, 1, 2]


def test_a_memory_smaller_than_the_depth_gives_all_it_has():
    found, cosines = nearest(unit_rows(2, 4), np.array([50, 51]), unit_rows(3, 4, seed=1), np.arange(3), 5)
    assert (found[:, 3:] == NOBODY).all()
    assert (cosines[:, 3:] == 0).all()
    assert [sorted(row) for row in found[:, :3].tolist()] == [[0, 1, 2]] * 2


def test_an_empty_memory_gives_nobody():
    found, cosines = nearest(unit_rows(2, 4), np.arange(2), np.zeros((0, 4), np.float32), np.arange(0), 3)
    assert (found == NOBODY).all()
    assert not cosines.any()


def test_without_self_leaves_out_the_sample_wherever_it_stands():
    ids = np.array([[1, 7, 8, 9], [2, 1, 7, 9], [7, 8, NOBODY, NOBODY]])
    cosines = np.array([[1.0, 0.9, 0.8, 0.7], [0.9, 0.9, 0.8, 0.7], [0.9, 0.8, 0.0, 0.0]], dtype=np.float32)
    found, similar = without_self(ids, cosines, np.array([1, 1, 3]), 3)
    assert found.tolist() == [[7, 8, 9], [2, 7, 9], [7, 8, NOBODY]]
    np.testing.assert_allclose(similar, [[0.9, 0.8, 0.7], [0.9, 0.8, 0.7], [0.9, 0.8, 0.0]], rtol=1e-6)


def test_without_self_a_lone_member_has_nobody():
    found, similar = without_self(np.array([[4, NOBODY]]), np.array([[1.0, 0.0]]), np.array([4]), 2)
    assert found.tolist() == [[NOBODY, NOBODY]]
    assert not similar.any()


def test_neighbours_for_training_never_hold_the_sample_itself(tmp_path):
    keys, ids = unit_rows(30, 4), np.arange(30)
    neighbors.write(tmp_path / "n.npz", ids, *nearest(keys, ids, keys, ids, 6))
    others, cosines = neighbors.read_others(tmp_path / "n.npz", ids, 5)
    assert others.shape == cosines.shape == (30, 5)
    assert not (others == ids[:, None]).any()
    expected = by_hand(keys, ids, keys, ids, 6)[:, 1:, 0]
    np.testing.assert_array_equal(others, expected)


def test_neighbours_are_read_in_the_order_asked_for(tmp_path):
    neighbors.write(
        tmp_path / "n.npz", np.array([2, 4, 6]), np.array([[20], [40], [60]]), np.array([[0.2], [0.4], [0.6]])
    )
    found, cosines = neighbors.read(tmp_path / "n.npz", np.array([6, 2]))
    assert found.tolist() == [[60], [20]]
    assert cosines.tolist() == [[0.6], [0.2]]
    with pytest.raises(KeyError, match="3"):
        neighbors.read(tmp_path / "n.npz", np.array([3]))


def test_neighbours_that_do_not_fit_together_are_refused(tmp_path):
    write_npz(tmp_path / "n.npz", {"ids": np.arange(3), "neighbour_ids": np.ones((2, 1)), "cosines": np.ones((3, 1))})
    with pytest.raises(DamagedFileError, match=r"n\.npz.*differ in length"):
        neighbors.read(tmp_path / "n.npz", np.arange(2))
