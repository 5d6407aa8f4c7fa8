"""LDA and nearest class mean: what they answer, and that a deletion leaves what a fit on the rest gives, to the bit."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from munkey.encoders.keys import Keys
from munkey.memory import sums
from munkey.memory.sums import Sums, rounded
from munkey.models.family import FAMILIES, Retrieval, forgotten
from munkey.models.networks import calibration
from tests.conftest import unit_rows
from tests.models.inputs import answered, fitted

WIDTH, CLASSES = 6, 4
IDS = 3 + 2 * np.arange(40)
MEMBERS = Keys(IDS, unit_rows(40, WIDTH, seed=1))
LABELS = np.random.default_rng(2).integers(0, CLASSES, 40)
QUERIES = unit_rows(5, WIDTH, seed=3)
exact = pytest.mark.parametrize("family", ["lda", "ncm"])


def system(family, kept=slice(None), **changes):
    return fitted(family, Keys(IDS[kept], MEMBERS.keys[kept]), LABELS[kept], CLASSES, **changes)


def answers(made, queries=QUERIES):
    return answered(made, None, Retrieval(None, keys=queries))


def bits(made):
    """Rows, weights and answers."""
    memory, head = made.memory, made.model
    parts = [memory.ids, memory.keys, memory.tokens, head.weight, head.bias]
    return [part.numpy().tobytes() for part in parts] + [answers(made).tobytes()]


@exact
@settings(max_examples=40, deadline=None)
@given(st.permutations(range(40)), st.lists(st.integers(0, 40), max_size=6))
def test_any_deletions_in_any_order_leave_the_bytes_of_a_fit_on_the_rest(family, order, ends):
    """The first rows of `order` up to the last of `ends` are deleted, in batches that end at each of these."""
    cuts = sorted({0, *ends})
    left = system(family)
    for start, end in pairwise(cuts):
        left = forgotten(left, IDS[order[start:end]])
    assert bits(left) == bits(system(family, np.sort(order[cuts[-1] :]).astype(int)))


@exact
@settings(max_examples=20, deadline=None)
@given(
    st.permutations(range(40)), st.lists(st.integers(0, 40), max_size=3), st.sampled_from([7, 4096])
)
def test_a_temperature_by_rows_left_out_follows_the_rows_that_are_left(family, order, ends, most):
    """To the bit, also where only some of the rows are left out."""
    cuts = sorted({0, *ends})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calibration, "LEFT_OUT", most)
        remaining = system(family, temperature="auto")
        for start, end in pairwise(cuts):
            remaining = forgotten(remaining, IDS[order[start:end]])
        never = system(family, np.sort(order[cuts[-1] :]).astype(int), temperature="auto")
    assert remaining.model.temperature == never.model.temperature
    assert bits(remaining) == bits(never)


@exact
def test_a_deletion_takes_its_rows_out_of_the_sums_and_adds_no_others(family, monkeypatch):
    made, counts = system(family), []
    monkeypatch.setattr(
        Sums, "add", lambda self, rows, labels, sign=1: counts.append(sign * len(rows))
    )
    forgotten(made, IDS[[3, 5]])
    assert counts == [-2]


@exact
def test_an_id_that_is_named_twice_leaves_the_sums_once(family):
    assert bits(forgotten(system(family), IDS[[3, 3, 5]])) == bits(
        system(family, np.delete(np.arange(40), [3, 5]))
    )


@exact
def test_a_head_from_a_file_has_no_sums_and_forgets_alike(family):
    read = system(family)
    read.model.sums = None
    assert bits(forgotten(read, IDS[:7])) == bits(system(family, slice(7, None)))


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(40)), st.integers(1, 39))
def test_sums_that_rows_left_again_are_those_of_the_rest(order, gone):
    """In another order, and one by one; nothing is rounded on the way."""
    keys, whole, rest = (
        rounded(MEMBERS.keys),
        *(Sums.empty(CLASSES, WIDTH, seconds=True) for _ in range(2)),
    )
    whole.add(keys, LABELS)
    for one in order[:gone]:
        whole.add(keys[[one]], LABELS[[one]], sign=-1)
    rest.add(keys[order[gone:]], LABELS[order[gone:]])
    for name in ("counts", "firsts", "seconds"):
        assert getattr(whole, name).tobytes() == getattr(rest, name).tobytes()


def test_keys_are_rounded_to_whole_multiples_that_float32_holds():
    keys = np.array([[1, -1, 0.3, 1e-6, 0.25]], dtype=np.float32)
    assert (rounded(keys) * 2**15).tolist() == [[32767, -32767, 9830, 0, 8192]]
    assert rounded(rounded(keys)).tobytes() == rounded(keys).tobytes()


def test_the_largest_numbers_at_the_bound_are_still_exact():
    """2^23 rows that are all as large as can be, as sums of fewer: one row more or less is seen."""
    most = Sums.empty(1, 1, seconds=True)
    most.add(np.ones((8, 1), np.float32) * 32767 / 32768, np.zeros(8, int))
    most.counts, most.firsts, most.seconds = (
        2**20 * part for part in (most.counts, most.firsts, most.seconds)
    )
    before = most.seconds.copy()
    most.add(np.full((1, 1), 2.0**-15, np.float32), np.zeros(1, int), sign=-1)
    assert before - most.seconds == 1
    most.add(np.full((1, 1), 2.0**-15, np.float32), np.zeros(1, int))
    with pytest.raises(ValueError, match=r"at most 8,388,608 rows"):
        most.add(np.full((1, 1), 2.0**-15, np.float32), np.zeros(1, int))


def test_blocks_of_rows_are_no_matter(monkeypatch):
    whole = bits(system("lda"))
    monkeypatch.setattr(sums, "BLOCK", 7)
    assert bits(system("lda")) == whole


def test_lda_gives_the_posteriors_of_normal_classes_with_the_shrunk_covariance():
    keys = rounded(MEMBERS.keys).astype(np.float64)
    means = np.array([keys[c == LABELS].mean(axis=0) for c in range(CLASSES)])
    within = (keys - means[LABELS]).T @ (keys - means[LABELS]) / (40 - CLASSES)
    covariance = 0.7 * within + 0.3 * np.trace(within) / WIDTH * np.eye(WIDTH)
    densities = np.array([multivariate_normal(mean, covariance).pdf(QUERIES) for mean in means]).T
    posteriors = densities * np.bincount(LABELS) / 40
    expected = np.log(posteriors / posteriors.sum(axis=1, keepdims=True))
    logits = 2 * answers(system("lda", alpha=0.3, temperature=2.0)).astype(np.float64)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_ncm_answers_with_the_nearest_mean():
    means = np.array([rounded(MEMBERS.keys)[c == LABELS].mean(axis=0) for c in range(CLASSES)])
    distances = ((QUERIES[:, None] - means) ** 2).sum(axis=2)
    logits = answers(system("ncm", temperature=0.5))
    np.testing.assert_allclose(logits - logits[:, :1], distances[:, :1] - distances, atol=1e-5)


@exact
def test_a_class_without_rows_has_a_finite_logit_that_never_wins(family):
    logits = answers(system(family, LABELS != 2))
    assert (logits[:, 2] == -1e4).all()
    assert np.isfinite(logits).all() and logits[:, [0, 1, 3]].min() > -1e4
    assert (answers(system(family, slice(0, 0))) == -1e4).all()  # no rows at all


def test_lda_of_classes_that_do_not_spread_is_the_nearest_mean():
    """One row of each class, or the same row again and again: there is no covariance to divide by."""
    one_each = [int(np.flatnonzero(c == LABELS)[0]) for c in range(CLASSES)]
    keys = MEMBERS.keys[one_each]
    for repeats in (1, 3):
        members, labels = (
            Keys(np.arange(4 * repeats), np.tile(keys, (repeats, 1))),
            np.tile(np.arange(4), repeats),
        )
        lda = answers(fitted("lda", members, labels, CLASSES, temperature=1.0))
        ncm = answers(fitted("ncm", members, labels, CLASSES, temperature=1.0))
        np.testing.assert_allclose(lda - np.log(1 / 4), ncm, atol=1e-5)


@pytest.mark.parametrize("name", ["knn", "lda", "ncm"])
def test_what_a_search_tries_differs_and_may_stand_in_params(name):
    family = FAMILIES[name]
    names, values = zip(*family.tried, strict=True)
    assert all(len(each) == len(set(each)) > 1 for each in values)
    for chosen in product(*values):
        family.settings(**dict(zip(names, chosen, strict=True)))
