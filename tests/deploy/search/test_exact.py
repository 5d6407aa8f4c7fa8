"""Exact search equals the pipeline's, bit for bit, whatever bfloat16 cannot tell apart and whatever is deleted."""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from munkey.deploy.search import exact, ranking
from tests.conftest import unit_rows
from tests.deploy.search.inputs import close_directions, expected, view_of

MEASURED = exact.multiplies_bfloat16


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "BLOCK", 64)
        patch.setattr(exact, "QUERIES", 16)
        patch.setattr(exact, "multiplies_bfloat16", lambda: True)  # also where torch must emulate it
        yield


@pytest.fixture
def looked_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many queries were looked at again in float32, each time."""
    counts, within = [], exact.within

    def counting(view, queries, last, first):
        counts.append(len(queries))
        return within(view, queries, last, first)

    monkeypatch.setattr(exact, "within", counting)
    return counts


def check(view, queries, depth):
    found, wanted = exact.nearest(view, queries, depth), expected(view, queries, depth)
    np.testing.assert_array_equal(found.neighbors.ids, wanted.ids)
    np.testing.assert_array_equal(found.neighbors.cosines.astype(np.float32), wanted.cosines)
    np.testing.assert_array_equal(np.where(found.rows < 0, -1, view.ids[found.rows]), wanted.ids)


@given(
    members=st.integers(1, 400), width=st.sampled_from([1, 2, 5, 16, 100]), dead=st.sampled_from([0, 0.1, 0.9]),
    queries=st.integers(1, 20), depth=st.integers(1, 9), seed=st.integers(0, 10**6),
)  # fmt: skip
def test_it_equals_the_pipelines_search(members, width, dead, queries, depth, seed):
    random = np.random.default_rng(seed)
    keys = close_directions(members + queries, width, seed)
    live = random.random(members) >= dead
    live[0] = True
    view = view_of(random.permutation(members * 3)[:members], keys[:members], live)
    check(view, keys[members:], depth)


def test_it_equals_the_pipelines_search_where_all_rows_are_far_apart(looked_again):
    view = view_of(np.arange(1000), unit_rows(1000, 20))
    check(view, unit_rows(40, 20, seed=1), 3)
    assert not sum(looked_again)


def too_near_for_bfloat16():
    """Three hundred rows at cosines that differ in the sixth digit, shuffled."""
    cosines = np.random.default_rng(0).permutation(0.8 + 1e-6 * np.arange(300))
    keys = np.column_stack([cosines, np.sqrt(1 - cosines**2), np.zeros(300)])
    return view_of(np.arange(300), keys.astype(np.float32)), np.tile(np.eye(3, dtype=np.float32)[:1], (9, 1))


def test_rows_that_bfloat16_cannot_order_are_looked_at_again(looked_again):
    check(*too_near_for_bfloat16(), 4)
    assert looked_again == [9]


def test_without_the_bound_they_would_be_missed(monkeypatch):
    monkeypatch.setattr(exact, "rounding", lambda queries, reduced: np.full(len(queries), -np.inf))
    with pytest.raises(AssertionError):
        check(*too_near_for_bfloat16(), 4)


@given(st.integers(1, 300), st.floats(-3, 3), st.integers(0, 10**6))
def test_a_reduced_product_is_never_further_off_than_the_bound_says(width, exponent, seed):
    import torch

    random = np.random.default_rng(seed)
    queries, keys = (10**exponent * random.standard_t(2, size=(20, width))).astype(np.float32), unit_rows(30, width)
    exact_products = queries.astype(np.float64) @ keys.astype(np.float64).T
    for reduced in (torch.bfloat16, torch.float32):
        products = exact.products(queries, keys, reduced).double().numpy()
        unit = torch.finfo(reduced).eps / 2
        bound = exact.longest(keys) * exact.rounding(queries, reduced)[:, None] + unit * np.abs(products)
        assert (np.abs(products - exact_products) <= bound + exact.TINY).all()


@pytest.mark.parametrize("size", [1e-25, 1e-12, 1e12, 1e25])
def test_keys_of_any_length_are_put_in_order(size):
    keys = (size * np.random.default_rng(0).normal(size=(300, 7))).astype(np.float32)
    view, queries = view_of(np.arange(300), keys), unit_rows(10, 7)
    products = queries.astype(np.float64) @ keys.astype(np.float64).T
    np.testing.assert_array_equal(exact.nearest(view, queries, 3).neighbors.ids, np.argsort(-products, axis=1)[:, :3])


def test_dead_rows_never_answer_whatever_is_left_in_them():
    view = view_of(np.arange(300), np.repeat(unit_rows(1, 8), 300, axis=0))
    view.live[::2] = False
    assert exact.nearest(view, view.keys[:10], 3).neighbors.ids.tolist() == [[1, 3, 5]] * 10


@pytest.mark.parametrize("count", [0, 2])
def test_a_memory_of_fewer_rows_than_wanted_gives_all_it_has(count):
    view = view_of(np.arange(90), unit_rows(90, 8))
    view.live[count:] = False
    found = exact.nearest(view, unit_rows(12, 8, seed=1), 5)
    assert (found.neighbors.ids[:, count:] == -1).all() and not found.neighbors.cosines[:, count:].any()
    assert np.sort(found.neighbors.ids[:, :count]).tolist() == [list(range(count))] * 12
    assert exact.nearest(view, unit_rows(0, 8), 5).rows.shape == (0, 5)
    assert (exact.nearest(view_of(np.arange(0), unit_rows(0, 8)), unit_rows(3, 8), 5).rows == -1).all()


@pytest.mark.parametrize("near_ties", [False, True])
def test_what_is_deleted_while_scores_are_computed_does_not_answer(near_ties, monkeypatch):
    """The best row of each query dies again and again: after its key was read, before `live` is looked at."""
    view = too_near_for_bfloat16()[0] if near_ties else view_of(np.arange(300), unit_rows(300, 3))
    queries, scores, deaths = np.tile(np.eye(3, dtype=np.float32)[:1], (9, 1)), ranking.scores, [40]

    def deleting(view, query, rows):
        near = scores(view, query, rows)
        if deaths[0]:
            deaths[0] -= 1
            best_first = rows[np.argsort(-near)]
            view.live[best_first[view.live[best_first]][:3]] = False
        return near

    monkeypatch.setattr(ranking, "scores", deleting)
    found = exact.nearest(view, queries, 4)
    assert np.count_nonzero(~view.live) > 20
    monkeypatch.setattr(ranking, "scores", scores)
    np.testing.assert_array_equal(found.neighbors.ids[-1], expected(view, queries[-1:], 4).ids[0])


@pytest.mark.parametrize("reduced", [False, True])
def test_the_answer_is_the_same_on_a_processor_without_bfloat16(reduced, monkeypatch, looked_again):
    monkeypatch.setattr(exact, "multiplies_bfloat16", lambda: reduced)
    view, queries = view_of(np.arange(900), close_directions(900, 16, 0)), close_directions(20, 16, 1)
    check(view, queries, 4)
    check(*too_near_for_bfloat16(), 4)
    assert (9 in looked_again) == reduced


def test_rows_before_the_first_are_left_out():
    keys = unit_rows(300, 8)
    found = exact.nearest(view_of(np.arange(300), keys), keys[:12], 4, first=200)
    wanted = expected(view_of(np.arange(200, 300), keys[200:]), keys[:12], 4)
    np.testing.assert_array_equal(found.neighbors.ids, wanted.ids)


def test_a_processor_without_bfloat16_is_not_timed_with_it(monkeypatch):
    import torch

    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    monkeypatch.setattr(exact, "products", lambda *_: pytest.fail("torch would emulate it"))
    assert MEASURED.__wrapped__() is False


def test_float32_products_are_whole_whatever_precision_torch_is_set_to(monkeypatch):
    import torch

    queries, keys = unit_rows(20, 100), unit_rows(30, 100, seed=1)
    whole = exact.products(queries, keys, torch.float32).numpy()
    monkeypatch.setattr(exact, "tensor", lambda _: pytest.fail("torch would round"))
    monkeypatch.setattr(torch.backends.mkldnn, "matmul", SimpleNamespace(fp32_precision="bf16"))
    np.testing.assert_allclose(exact.products(queries, keys, torch.float32).numpy(), whole, atol=1e-6)


@pytest.mark.parametrize(("seconds", "faster"), [(0.5, True), (2.0, False)])
def test_bfloat16_is_used_where_its_products_were_faster_once(seconds, faster, monkeypatch):
    """By a clock of the test's own: float32 takes a second each time, bfloat16 ten when it is used first."""
    now, first = [0.0], [10.0]

    def products(queries, keys, reduced):
        now[0] += 1.0 if reduced == torch.float32 else first.pop() if first else seconds

    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    monkeypatch.setattr(exact, "products", products)
    monkeypatch.setattr(exact, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    assert MEASURED.__wrapped__() == faster
