"""Heads in closed form: what they answer, and that a deletion leaves what a fit on the rest gives, to the bit."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.linear_model import Ridge

from munkey.encoders.keys import Keys
from munkey.memory import sums
from munkey.memory.sums import RandomFeatures, Sums, round_keys
from munkey.models.families.lda import ALPHAS
from munkey.models.families.ranpac import PENALTIES
from munkey.models.family import FAMILIES, Retrieval, forget_samples
from munkey.models.networks import calibration, kernel_ridge
from munkey.models.networks.calibration import measure_loss
from munkey.models.networks.closed_form import (
    EMPTY_CLASS_LOGIT,
    find_best_penalty,
    fit_discriminant,
    predict_leave_one_out,
    predict_left_out,
    predict_left_out_by_alpha,
    predict_left_out_ridge,
)
from munkey.models.networks.kernel_ridge import Kernel
from tests.conftest import unit_rows
from tests.models.inputs import SECTIONS, answered, fitted

WIDTH = 6
CLASSES = 4
IDS = 3 + 2 * np.arange(40)
MEMBERS = Keys(IDS, unit_rows(40, WIDTH, seed=1))
LABELS = np.random.default_rng(2).integers(0, CLASSES, 40)
QUERIES = unit_rows(5, WIDTH, seed=3)
KNOWN_FEATURES = [[3776, 1552, 704], [0, 0, 0]]
exact = pytest.mark.parametrize("family", ["lda", "ncm", "ranpac", "krr"])


def system(family, rows=slice(None), **changes):
    return fitted(family, Keys(IDS[rows], MEMBERS.keys[rows]), LABELS[rows], CLASSES, **changes)


def answers(fitted_system, queries=QUERIES):
    return answered(fitted_system, None, Retrieval(None, keys=queries))


def bits(fitted_system):
    """Rows, weights and answers."""
    memory = fitted_system.memory
    head = fitted_system.model
    parts = [memory.ids, memory.keys, memory.tokens, *head.buffers()]
    return [part.numpy().tobytes() for part in parts] + [answers(fitted_system).tobytes()]


@exact
@settings(max_examples=40, deadline=None)
@given(st.permutations(range(40)), st.lists(st.integers(0, 40), max_size=6))
def test_any_deletions_in_any_order_leave_the_bytes_of_a_fit_on_the_rest(family, order, ends):
    """The first rows of `order` up to the last of `ends` are deleted, in batches that end at each of these."""
    cuts = sorted({0, *ends})
    remaining = system(family)
    for start, end in pairwise(cuts):
        remaining = forget_samples(remaining, IDS[order[start:end]])
    assert bits(remaining) == bits(system(family, np.sort(order[cuts[-1] :]).astype(int)))


# settings of which nothing was chosen while the deleted rows were there
FOLLOWING = [
    ("lda", {"temperature": "auto"}),
    ("lda", {"alpha": "auto"}),
    ("lda", {"alpha": "auto", "temperature": "auto"}),
    ("ncm", {"temperature": "auto"}),
    ("ranpac", {"lam": "auto"}),
    ("ranpac", {"lam": "auto", "temperature": "auto"}),
    ("krr", {"lam": "auto"}),
    ("krr", {"lam": "auto", "temperature": "auto"}),
]


@pytest.mark.parametrize(("family", "constants"), FOLLOWING)
@settings(max_examples=20, deadline=None)
@given(
    st.permutations(range(40)), st.lists(st.integers(0, 40), max_size=3), st.sampled_from([7, 4096])
)
def test_constants_that_follow_the_rows_are_those_of_a_fit_on_the_rest(
    family, constants, order, ends, most
):
    """To the bit, also where only some of the rows are left out."""
    cuts = sorted({0, *ends})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calibration, "MAX_LEFT_OUT", most)
        patched.setattr(kernel_ridge, "MAX_LEFT_OUT", most)
        remaining = system(family, **constants)
        for start, end in pairwise(cuts):
            remaining = forget_samples(remaining, IDS[order[start:end]])
        never = system(family, np.sort(order[cuts[-1] :]).astype(int), **constants)
    assert remaining.model.temperature == never.model.temperature
    assert remaining.model.constant == never.model.constant
    assert bits(remaining) == bits(never)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("family", ["ranpac", "krr"])
def test_a_penalty_that_follows_the_rows_is_larger_where_classes_do_not_differ(family):
    generator = np.random.default_rng(4)
    labels = np.arange(400) % CLASSES
    noise = generator.normal(size=(400, WIDTH)) * np.array([0.1, 0.1, 1, 1, 1, 1])
    apart = noise.copy()
    apart[:, 0] += labels % 2
    apart[:, 1] += labels // 2
    penalties = []
    for keys in (apart, noise):
        members = Keys(np.arange(400), unit(keys))
        krr_or_ranpac = fitted(family, members, labels, CLASSES, lam="auto", temperature="auto")
        penalties.append(krr_or_ranpac.model.constant)
    assert penalties[0] < penalties[1]


def test_an_alpha_that_follows_the_rows_has_the_least_loss_of_rows_left_out():
    """Small where classes differ in directions of little variance, large where they do not differ."""
    generator = np.random.default_rng(5)
    labels = np.arange(400) % CLASSES
    noise = generator.normal(size=(400, WIDTH)) * np.array([0.1, 0.1, 1, 1, 1, 1])
    apart = noise.copy()
    apart[:, 0] += 0.3 * (labels % 2)
    apart[:, 1] += 0.3 * (labels // 2)
    alphas = []
    for keys in (apart, noise):
        members = Keys(np.arange(400), unit(keys).astype(np.float32))
        losses = []
        for alpha in ALPHAS:
            logits = predict_leave_one_out(members.keys, labels, CLASSES, alpha)
            losses.append(measure_loss(logits, labels)[0])
        lda = fitted("lda", members, labels, CLASSES, alpha="auto", temperature="auto").model
        assert lda.constant == ALPHAS[int(np.argmin(losses))]
        alphas.append(lda.constant)
    assert alphas[0] < alphas[1]


@exact
def test_a_deletion_takes_its_rows_out_of_the_sums_and_adds_no_others(family, monkeypatch):
    whole = system(family)
    counts = []
    monkeypatch.setattr(
        Sums, "add", lambda self, rows, labels, sign=1: counts.append(sign * len(rows))
    )
    forget_samples(whole, IDS[[3, 5]])
    assert counts == [-2]


@exact
def test_an_id_that_is_named_twice_leaves_the_sums_once(family):
    remaining = forget_samples(system(family), IDS[[3, 3, 5]])
    assert bits(remaining) == bits(system(family, np.delete(np.arange(40), [3, 5])))


@exact
def test_a_head_from_a_file_without_sums_forgets_the_same(family):
    read = system(family)
    read.model.sums = None
    assert bits(forget_samples(read, IDS[:7])) == bits(system(family, slice(7, None)))


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(40)), st.integers(1, 39))
def test_sums_that_rows_were_subtracted_from_are_those_of_the_rest(order, gone):
    """In another order, and one by one; nothing is rounded on the way."""
    keys = round_keys(MEMBERS.keys)
    whole = Sums.empty(CLASSES, WIDTH, with_outer_products=True)
    rest = Sums.empty(CLASSES, WIDTH, with_outer_products=True)
    whole.add(keys, LABELS)
    for one in order[:gone]:
        whole.add(keys[[one]], LABELS[[one]], sign=-1)
    rest.add(keys[order[gone:]], LABELS[order[gone:]])
    for name in ("counts", "class_sums", "outer_products"):
        assert getattr(whole, name).tobytes() == getattr(rest, name).tobytes()


def test_keys_are_rounded_to_whole_multiples_that_float32_holds():
    keys = np.array([[1, -1, 0.3, 1e-6, 0.25]], dtype=np.float32)
    assert (round_keys(keys) * 2**15).tolist() == [[32767, -32767, 9830, 0, 8192]]
    assert round_keys(round_keys(keys)).tobytes() == round_keys(keys).tobytes()


def test_the_largest_numbers_at_the_bound_are_still_exact():
    """2^23 rows that are all as large as can be, as sums of fewer: one row more or less is seen."""
    most = Sums.empty(1, 1, with_outer_products=True)
    most.add(np.ones((8, 1), np.float32) * 32767 / 32768, np.zeros(8, int))
    most.counts = 2**20 * most.counts
    most.class_sums = 2**20 * most.class_sums
    most.outer_products = 2**20 * most.outer_products
    before = most.outer_products.copy()
    most.add(np.full((1, 1), 2.0**-15, np.float32), np.zeros(1, int), sign=-1)
    assert before - most.outer_products == 1
    most.add(np.full((1, 1), 2.0**-15, np.float32), np.zeros(1, int))
    with pytest.raises(ValueError, match="8,388,608"):
        most.add(np.full((1, 1), 2.0**-15, np.float32), np.zeros(1, int))


def test_rows_that_were_never_added_cannot_be_subtracted():
    row = Sums.empty(CLASSES, WIDTH, with_outer_products=True)
    row.add(MEMBERS.keys[:1], np.array([2]))
    with pytest.raises(ValueError, match="more rows of a class"):
        row.add(MEMBERS.keys[:1], np.array([1]), sign=-1)
    assert row.counts.tolist() == [0, 0, 1, 0]
    assert row.class_sums.any()


def test_only_empty_classes_at_the_end_are_added_and_removed():
    rows = Sums.empty(CLASSES, WIDTH, with_outer_products=False)
    rows.add(MEMBERS.keys[:1], np.array([2]))
    rows.resize(CLASSES + 2)
    rows.resize(3)
    assert rows.counts.tolist() == [0, 0, 1]
    assert rows.class_sums.shape == (3, WIDTH)
    with pytest.raises(ValueError, match="beyond the first 2 has rows"):
        rows.resize(2)


def test_a_head_does_not_depend_on_the_size_of_blocks(monkeypatch):
    whole = bits(system("lda"))
    monkeypatch.setattr(sums, "BLOCK", 7)
    assert bits(system("lda")) == whole


def test_lda_gives_the_posteriors_of_normal_classes_with_the_shrunk_covariance():
    keys = round_keys(MEMBERS.keys).astype(np.float64)
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
    means = np.array([round_keys(MEMBERS.keys)[c == LABELS].mean(axis=0) for c in range(CLASSES)])
    distances = ((QUERIES[:, None] - means) ** 2).sum(axis=2)
    logits = answers(system("ncm", temperature=0.5))
    np.testing.assert_allclose(logits - logits[:, :1], distances[:, :1] - distances, atol=1e-5)


def test_random_features_are_the_same_in_any_batch_and_depend_on_no_data():
    features = RandomFeatures(50, seed=3)
    keys = round_keys(MEMBERS.keys)
    together = features.transform(keys)
    alone = np.concatenate([features.transform(keys[row : row + 1]) for row in range(40)])
    assert together.tobytes() == alone.tobytes()
    assert together.tobytes() == round_keys(together).tobytes()
    assert 0 <= together.max() < 1
    assert 0.3 < (together == 0).mean() < 0.7  # ReLU
    assert not np.array_equal(RandomFeatures(50, seed=4).transform(keys), together)
    # Known bytes: another machine or version of NumPy must not draw others.
    of_seed_0 = RandomFeatures(3, 0).transform(np.eye(2)) * 2**15
    assert of_seed_0.astype(int).tolist() == KNOWN_FEATURES


def test_ranpac_is_ridge_regression_on_its_features():
    settings = SECTIONS["ranpac"]
    features = RandomFeatures(settings["features"], settings["seed"])
    vectors = features.transform(MEMBERS.keys).astype(np.float64)
    centered = vectors - vectors.mean(axis=0)
    penalty = 0.1 * (centered**2).sum() / vectors.shape[1]
    truth = Ridge(alpha=penalty).fit(vectors, np.eye(CLASSES)[LABELS])
    expected = truth.predict(features.transform(QUERIES)) / settings["temperature"]
    np.testing.assert_allclose(answers(system("ranpac")), expected, rtol=1e-5, atol=1e-5)


def test_the_answer_to_a_row_left_out_of_a_ridge_is_that_of_a_fit_without_it():
    sums = Sums.empty(CLASSES, WIDTH, with_outer_products=True)
    sums.add(MEMBERS.keys, LABELS)
    vectors = round_keys(MEMBERS.keys).astype(np.float64)
    penalty = 0.2 * ((vectors - vectors.mean(axis=0)) ** 2).sum() / WIDTH
    targets = np.eye(CLASSES)[LABELS]
    expected = []
    for row in range(40):
        others = np.arange(40) != row
        truth = Ridge(alpha=penalty).fit(vectors[others], targets[others])
        expected.append(truth.predict(vectors[[row]])[0])
    left_out = predict_left_out_ridge(sums, MEMBERS.keys, LABELS, 0.2)
    np.testing.assert_allclose(left_out, expected, rtol=1e-6, atol=1e-9)


def test_the_best_penalty_has_the_least_error_of_generalized_cross_validation():
    sums = Sums.empty(CLASSES, WIDTH, with_outer_products=True)
    sums.add(MEMBERS.keys, LABELS)
    vectors = round_keys(MEMBERS.keys).astype(np.float64)
    centered = vectors - vectors.mean(axis=0)
    targets = np.eye(CLASSES)[LABELS] - np.bincount(LABELS) / 40
    errors = []
    for penalty in PENALTIES:
        ridged = centered.T @ centered + penalty * (centered**2).sum() / WIDTH * np.eye(WIDTH)
        hat = np.full((40, 40), 1 / 40) + centered @ np.linalg.solve(ridged, centered.T)
        residual = targets - (hat - 1 / 40) @ targets
        errors.append(40 * (residual**2).sum() / (40 - np.trace(hat)) ** 2)
    assert find_best_penalty(sums, PENALTIES) == PENALTIES[int(np.argmin(errors))]


def test_krr_solves_for_the_arc_cosine_kernel():
    keys = round_keys(MEMBERS.keys).astype(np.float64)
    queries = round_keys(QUERIES).astype(np.float64)

    def kernel(first, second):
        lengths = np.outer(np.linalg.norm(first, axis=1), np.linalg.norm(second, axis=1))
        angles = np.arccos(np.clip(first @ second.T / lengths, -1, 1))
        return (np.sin(angles) + (np.pi - angles) * np.cos(angles)) / np.pi

    gram = kernel(keys, keys)
    shares = np.bincount(LABELS) / 40
    ridged = gram + 0.1 * np.eye(40)
    dual = np.linalg.solve(ridged, np.eye(CLASSES)[LABELS] - shares)
    expected = (kernel(queries, keys) @ dual + shares) / SECTIONS["krr"]["temperature"]
    np.testing.assert_allclose(answers(system("krr")), expected, rtol=1e-5, atol=1e-5)


def test_pixels_at_the_end_of_a_key_have_a_gaussian_kernel():
    rows = round_keys(MEMBERS.keys).astype(np.float64) * 2**15
    pixels = unit(rows[:, 4:])
    distances = ((pixels[:, None] - pixels) ** 2).sum(axis=2)
    gaussian = np.exp(-distances / (2 * 0.3**2))
    arc_cosine = Kernel(share=1.0, pixels=0, sigma=1.0).compute(rows[:, :4], rows[:, :4])
    mixed = Kernel(share=0.7, pixels=2, sigma=0.3).compute(rows, rows)
    np.testing.assert_allclose(mixed, 0.7 * arc_cosine + 0.3 * gaussian, atol=1e-8)
    alone = Kernel(share=0.7, pixels=2, sigma=0.3).compute(rows[:, 4:], rows[:, 4:])
    np.testing.assert_allclose(alone, gaussian, atol=1e-8)


@pytest.mark.parametrize("pixels", [2, WIDTH])
def test_a_kernel_with_pixels_forgets_to_the_bit(pixels):
    remaining = system("krr", pixels=pixels)
    for row in (7, 3, 30):
        remaining = forget_samples(remaining, IDS[[row]])
    assert bits(remaining) == bits(
        system("krr", np.delete(np.arange(40), [3, 7, 30]), pixels=pixels)
    )


def test_krr_refuses_more_pixels_than_a_key_has_entries():
    with pytest.raises(ValueError, match=r"krr\.pixels = 7: must be at most 6"):
        system("krr", pixels=7)


def test_the_kernel_of_krr_is_that_of_infinitely_many_random_features():
    features = RandomFeatures(20_000, seed=0).transform(MEMBERS.keys).astype(np.float64)
    lengths = np.linalg.norm(features, axis=1)
    products = features @ features.T / np.outer(lengths, lengths)
    keys = round_keys(MEMBERS.keys).astype(np.float64) * 2**15
    kernel = Kernel(share=1.0, pixels=0, sigma=1.0).compute(keys, keys)
    np.testing.assert_allclose(products, kernel, atol=0.03)


def test_the_kernel_of_two_rows_is_the_same_in_any_block(monkeypatch):
    whole = bits(system("krr"))
    monkeypatch.setattr(kernel_ridge, "BLOCK", 7)
    assert bits(system("krr")) == whole


def test_the_answer_to_a_row_left_out_of_krr_is_that_of_a_fit_without_it(monkeypatch):
    """Shares of the classes are held."""
    answered = []

    def noted(logits, classes, temperature):
        answered.append(logits)
        return measure_loss(logits, classes, temperature)

    monkeypatch.setattr(kernel_ridge, "measure_loss", noted)
    system("krr", temperature="auto")
    multiples = round_keys(MEMBERS.keys).astype(np.float64) * 2**15
    gram = Kernel(share=1.0, pixels=0, sigma=1.0).compute(multiples, multiples)
    targets = np.eye(CLASSES)[LABELS] - np.bincount(LABELS) / 40
    for row in range(40):
        others = np.arange(40) != row
        ridged = gram[np.ix_(others, others)] + 0.1 * np.eye(39)
        dual = np.linalg.solve(ridged, targets[others])
        expected = gram[row, others] @ dual + np.bincount(LABELS) / 40
        np.testing.assert_allclose(answered[0][row], expected, rtol=1e-8, atol=1e-8)


def test_the_answers_to_all_rows_left_out_of_krr_are_those_of_fits_without_them(monkeypatch):
    """Of a class with a single row, too; a class without rows is never answered."""
    monkeypatch.setattr(kernel_ridge, "BLOCK", 7)  # an incomplete block at the end
    labels = np.r_[4, np.delete(LABELS, 0) % 2]  # none of 2 and 3
    kernel = Kernel(share=0.5, pixels=2, sigma=0.4)
    keys = MEMBERS.keys
    logits = kernel_ridge.predict_leave_one_out(kernel, keys, labels, 5, 0.1)
    multiples = round_keys(keys).astype(np.float64) * 2**15
    gram = kernel.compute(multiples, multiples)
    shares = np.bincount(labels) / 40
    targets = np.eye(5)[labels] - shares
    for row in range(40):
        others = np.arange(40) != row
        ridged = gram[np.ix_(others, others)] + 0.1 * np.eye(39)
        expected = gram[row, others] @ np.linalg.solve(ridged, targets[others]) + shares
        expected[[2, 3]] = EMPTY_CLASS_LOGIT
        np.testing.assert_allclose(logits[row], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("temperature", [1.0, 1e-5])
def test_a_class_without_rows_is_never_predicted_however_large_logits_are(temperature):
    labels = LABELS % 2  # none of 2, 3 and 4
    sums = Sums.empty(CLASSES, WIDTH, with_outer_products=True)
    sums.add(MEMBERS.keys, labels)
    queries = -torch.from_numpy(MEMBERS.keys)  # on the other side of all class means
    logits = fit_discriminant(sums, 1e-3, temperature)(queries)
    assert logits.isfinite().all()
    assert set(logits.argmax(dim=1).tolist()) <= {0, 1}


@pytest.mark.parametrize(
    ("rows", "width", "step", "least"),
    [
        pytest.param(40, 6, 1, 2, id="more rows than dimensions"),
        pytest.param(20, 32, 1, 2, id="fewer rows than dimensions"),
        pytest.param(20, 32, 3, 2, id="some of fewer rows"),
        pytest.param(21, 32, 1, 1, id="a class with a single row"),
    ],
)
def test_answers_by_alpha_are_those_of_each_alpha(rows, width, step, least):
    labels = np.arange(rows) % 3
    if least == 1:
        labels[-1] = 3
    keys = unit_rows(rows, width, seed=8)
    row_sums = Sums.empty(CLASSES, width, with_outer_products=True)
    row_sums.add(keys, labels)
    together = np.flatnonzero(row_sums.counts[labels] > 1)[::step]
    by_alpha = predict_left_out_by_alpha(row_sums, keys[together], labels[together], ALPHAS)
    for alpha, logits in zip(ALPHAS, by_alpha, strict=True):
        expected = predict_left_out(row_sums, keys[together], labels[together], alpha)
        np.testing.assert_allclose(logits, expected, rtol=1e-8, atol=1e-8)


def test_answers_by_alpha_of_rows_that_are_all_equal():
    keys = np.tile(unit_rows(1, WIDTH, seed=8), (12, 1))
    labels = np.arange(12) % 3
    row_sums = Sums.empty(CLASSES, WIDTH, with_outer_products=True)
    row_sums.add(keys, labels)
    by_alpha = predict_left_out_by_alpha(row_sums, keys, labels, ALPHAS)
    for alpha, logits in zip(ALPHAS, by_alpha, strict=True):
        expected = predict_left_out(row_sums, keys, labels, alpha)
        np.testing.assert_allclose(logits, expected, rtol=1e-8, atol=1e-8)


def test_lda_with_both_constants_auto_has_the_temperature_of_its_alpha():
    with_auto = system("lda", alpha="auto", temperature="auto")
    with_that_alpha = system("lda", alpha=with_auto.model.constant, temperature="auto")
    assert with_that_alpha.model.temperature == with_auto.model.temperature
    assert bits(with_that_alpha) == bits(with_auto)


def test_krr_refuses_more_rows_than_it_can_be_fitted_to(monkeypatch):
    monkeypatch.setattr(type(FAMILIES["krr"]), "max_rows", 39)
    with pytest.raises(ValueError, match=r"at most 39 .*40: use lda or ranpac"):
        system("krr")
    assert len(system("krr", slice(1, None)).require_memory()) == 39


@exact
def test_a_class_without_rows_has_a_finite_logit_that_never_wins(family):
    logits = answers(system(family, LABELS != 2))
    assert (logits[:, 2] == -1e4).all()
    assert np.isfinite(logits).all()
    assert logits[:, [0, 1, 3]].min() > -1e4
    assert (answers(system(family, slice(0, 0))) == -1e4).all()  # no rows at all


def test_lda_is_the_nearest_mean_where_classes_do_not_spread():
    """One row of each class, or the same row again and again: there is no covariance to divide by."""
    one_each = [int(np.flatnonzero(c == LABELS)[0]) for c in range(CLASSES)]
    keys = MEMBERS.keys[one_each]
    for repeats in (1, 3):
        members = Keys(np.arange(4 * repeats), np.tile(keys, (repeats, 1)))
        labels = np.tile(np.arange(4), repeats)
        lda = answers(fitted("lda", members, labels, CLASSES, temperature=1.0))
        ncm = answers(fitted("ncm", members, labels, CLASSES, temperature=1.0))
        np.testing.assert_allclose(lda - np.log(1 / 4), ncm, atol=1e-5)


def test_sums_that_do_not_fit_in_memory_are_refused_before_they_are_allocated(monkeypatch):
    free_bytes = 10 * 10**9
    monkeypatch.setattr("munkey.memory.sums.measure_free_memory", lambda: free_bytes)
    with pytest.raises(ValueError, match=r"d = 27,648 .*43 GB.*10 GB"):
        Sums.empty(2, 27_648, with_outer_products=True)
    features = RandomFeatures(count=20_000, seed=0)
    with pytest.raises(ValueError, match="d = 20,000"):
        Sums.empty(2, 5, with_outer_products=True, features=features)
    Sums.empty(2, 27_648, with_outer_products=False)
    Sums.empty(2, 13_000, with_outer_products=True)  # needs 9.5 GB
