"""MUNKEY with a head: what it adds in training and in answers, and that it forgets as its family does, to the bit."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from munkey.encoders.keys import Keys
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.sums import round_keys
from munkey.models.families.munkey import Exemplars
from munkey.models.family import FAMILIES, MemberKeys, System, Training, read_added_head
from munkey.models.networks.calibration import measure_loss
from munkey.models.networks.closed_form import (
    EMPTY_CLASS_LOGIT,
    find_best_temperature,
    predict_leave_one_out,
)
from munkey.models.networks.kernel_ridge import Kernel
from munkey.models.networks.kernel_ridge import predict_leave_one_out as krr_leave_one_out
from munkey.models.system import load, save
from munkey.settings import InferenceSettings
from tests.conftest import MUNKEY as ARCHITECTURE
from tests.conftest import image_set, unit_rows
from tests.models.inputs import (
    DATA,
    QUERIES,
    SECTIONS,
    STAGE,
    answered,
    fitted,
    others,
    quiet,
    recipe,
    retrieval,
)

MUNKEY = FAMILIES["munkey"]
LABELS = np.arange(12) % 3
SAMPLES = replace(image_set(12), labels=LABELS)
KEYS = unit_rows(12, 4, seed=3)
LDA = {"alpha": 0.3, "temperature": 4.5}
KRR = {
    "family": "krr", "lam": 0.1, "pixels": 1, "sigma": 0.4, "share": 0.5, "temperature": 0.2,
}  # fmt: skip
ASKED = InferenceSettings(k=4, fusion="ensemble", temperature=0.07)


def refitted(keys, labels, classes, alpha, left_out, is_same_prior):
    """LDA without one row, as its definition says.

    is_same_prior: whether priors, average eigenvalue and N - C are those of all rows.
    """
    z = round_keys(keys).astype(np.float64)
    remain = np.arange(len(keys)) != left_out
    counts = np.bincount(labels[remain], minlength=classes)
    present = counts > 0
    width = z.shape[1]
    means = np.array([z[remain & (labels == c)].mean(axis=0) for c in np.flatnonzero(present)])
    place = np.cumsum(present) - 1

    def scatter(rows, centers):
        return (z[rows] - centers[place[labels[rows]]]).T @ (z[rows] - centers[place[labels[rows]]])

    within = scatter(remain, means)
    rows = int(remain.sum())
    trace = np.trace(within)
    freedom = rows - int(present.sum())
    if is_same_prior:
        counts = np.bincount(labels, minlength=classes)
        rows = len(labels)
        whole = np.array([z[labels == c].mean(axis=0) for c in np.flatnonzero(present)])
        trace = np.trace(scatter(np.ones(rows, bool), whole))
        freedom = rows - int(present.sum())
    covariance = ((1 - alpha) * within + alpha * trace / width * np.eye(width)) / freedom
    weight = np.linalg.solve(covariance, means.T)
    logits = np.full(classes, EMPTY_CLASS_LOGIT)
    logits[present] = (
        z[left_out] @ weight - 0.5 * (means.T * weight).sum(axis=0) + np.log(counts[present] / rows)
    )
    return logits


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(10, 40), st.integers(2, 5), st.floats(0.01, 1))
def test_leaving_one_out_in_closed_form_is_a_refit_with_the_same_priors_and_trace(
    seed, rows, classes, alpha
):
    # every second class has no rows
    labels = np.random.default_rng(seed).permutation(np.arange(rows) % classes) * 2
    keys = unit_rows(rows, 6, seed=seed)
    logits = predict_leave_one_out(keys, labels, 2 * classes, alpha)
    by_hand = [
        refitted(keys, labels, 2 * classes, alpha, row, is_same_prior=True) for row in range(rows)
    ]
    np.testing.assert_allclose(logits, by_hand, rtol=1e-8, atol=1e-8)


def test_leaving_one_out_does_not_depend_on_the_size_of_blocks(monkeypatch):
    whole = predict_leave_one_out(KEYS, LABELS, 3, 0.2)
    monkeypatch.setattr("munkey.models.networks.closed_form.BLOCK", 5)
    np.testing.assert_allclose(predict_leave_one_out(KEYS, LABELS, 3, 0.2), whole, rtol=1e-12)


def test_a_class_with_one_row_is_refused():
    with pytest.raises(ValueError, match=r"two rows .*\[2\]"):
        predict_leave_one_out(KEYS, np.array([0, 1] * 5 + [0, 2]), 3, 0.2)


@pytest.mark.parametrize(("head", "shrinkage"), [("lda", "alpha"), ("krr", "lam")])
def test_a_head_whose_shrinkage_would_change_with_a_deletion_is_refused(params, head, shrinkage):
    sections = params.model_dump(include={"data", "model", "train", "munkey", head})
    sections["munkey"]["head"] = head
    sections[head][shrinkage] = 0.3
    assert MUNKEY.make_recipe(sections, STAGE).head[shrinkage] == 0.3
    sections[head][shrinkage] = "auto"
    message = rf"munkey\.head: {head} needs a number for {head}\.{shrinkage}"
    with pytest.raises(ValueError, match=message):
        MUNKEY.make_recipe(sections, STAGE)


def test_a_head_for_fewer_samples_is_refused_before_training(training, head, monkeypatch):
    monkeypatch.setattr(type(FAMILIES[head]), "max_rows", 11)
    with pytest.raises(ValueError, match=r"at most 11 .* 12"):
        MUNKEY.train(training)


def test_the_settings_limit_the_samples_to_what_the_head_can_take(params):
    limits = {}
    for head in ("none", "lda", "krr"):
        settings = params.munkey.model_copy(update={"head": head})
        changed = params.model_copy(update={"munkey": settings})
        limits[head] = changed.most_samples
    assert limits["none"] == limits["lda"] == {}
    [(reason, limit)] = limits["krr"].items()
    assert limit == 10_000
    assert "munkey.head: krr" in reason


@pytest.mark.parametrize("temperature", [0.3, 1.0, 7.0])
def test_the_temperature_is_that_of_the_labels(temperature):
    random = np.random.default_rng(0)
    logits = 3 * random.normal(size=(20_000, 4))
    labels = (logits / temperature + random.gumbel(size=logits.shape)).argmax(axis=1)
    assert find_best_temperature(logits, labels) == pytest.approx(temperature, rel=0.05)


@pytest.fixture(params=["lda", "krr"])
def head(request):
    return request.param


@pytest.fixture
def training(params, head):
    """Of a dozen samples with a head: the training, before anything is learned."""
    sections = params.model_dump(include={"model", "train", "munkey"}) | {"data": DATA.model_dump()}
    sections["munkey"]["head"] = head
    sections[head] = SECTIONS[head]
    members = MemberKeys(KEYS, others(Keys(SAMPLES.ids, KEYS), 4))
    return Training(SAMPLES, 3, MUNKEY.make_recipe(sections, STAGE), "cpu", quiet, members)


@pytest.fixture
def system(training):
    return MUNKEY.train(training).system


def queries_of(system):
    """The retrieval of seven samples, with their keys."""
    return replace(retrieval(system.memory, ASKED), keys=QUERIES.keys)


def bare(system):
    """The network alone."""
    return replace(system, architecture=replace(system.architecture, head=None))


def head_of(system, rows=slice(None)):
    """The head fitted to some of the rows, with the system's constants."""
    family, settings = read_added_head(system.architecture.head)
    return fitted(family.name, Keys(SAMPLES.ids[rows], KEYS[rows]), LABELS[rows], **settings)


def left_out(system):
    """Logits of all samples by the others, at the system's temperature."""
    family, settings = read_added_head(system.architecture.head)
    logits, _ = family.predict_leave_one_out(KEYS, LABELS, 3, family.validate_section(settings))
    return logits / settings["temperature"]


def test_a_head_has_the_constants_of_its_family_and_the_best_temperature_for_rows_left_out(
    system, head
):
    constants = dict(system.architecture.head)
    temperature = constants.pop("temperature")
    expected = dict(SECTIONS[head])
    del expected["temperature"]
    if head == "lda":
        assert constants == expected == {"alpha": 0.2}
        logits = predict_leave_one_out(KEYS, LABELS, 3, 0.2)
        assert temperature == find_best_temperature(logits, LABELS)
    else:
        assert constants == {"family": "krr"} | expected
        kernel = Kernel(expected["share"], expected["pixels"], expected["sigma"])
        logits = krr_leave_one_out(kernel, KEYS, LABELS, 3, expected["lam"])
        assert temperature == measure_loss(logits, LABELS)[1]
    assert (left_out(system) == logits / temperature).all()


@pytest.mark.parametrize("dropped", ["none", "image", "token"])
def test_every_pass_of_training_adds_the_logits_of_the_head_without_the_sample(
    training, system, dropped
):
    settings = training.recipe.family.model_copy(
        update={"p_image": float(dropped == "image"), "p_token": float(dropped == "token")}
    )
    learning = MUNKEY.resume(
        system, replace(training, recipe=replace(training.recipe, family=settings))
    )
    images = torch.zeros(3, 3, 8, 8)
    index = torch.tensor([4, 0, 7])
    alone = Exemplars(SAMPLES.ids, training.members, settings, training.recipe.stage, "cpu")
    alone.tokens.data.copy_(system.memory.tokens)
    with torch.no_grad():
        added = learning.predict(images, index) - alone.forward(
            learning.system.model, images, index
        )
    expected = left_out(system)[index]
    np.testing.assert_allclose(added, expected, rtol=1e-4, atol=1e-4)


def test_every_answer_adds_the_logits_of_the_head_for_the_key(system):
    queries = queries_of(system)
    samples = image_set(7)
    by_head = answered(head_of(system), samples, queries)
    by_network = answered(bare(system), samples, queries)
    np.testing.assert_array_equal(answered(system, samples, queries), by_network + by_head)
    with_head = MUNKEY.predict_path_logits(system, samples, DATA, "cpu", queries)
    without = MUNKEY.predict_path_logits(bare(system), samples, DATA, "cpu", queries)
    for path in ("softmax", "image", "token"):
        np.testing.assert_array_equal(with_head[path], without[path] + by_head)
    by_head_of_members = answered(head_of(system), SAMPLES, replace(queries, keys=KEYS))
    with_head = MUNKEY.predict_cut_logits(system, SAMPLES, DATA, "cpu")
    without = MUNKEY.predict_cut_logits(bare(system), SAMPLES, DATA, "cpu")
    for cut in ("image", "token", "both"):
        np.testing.assert_array_equal(with_head[cut], without[cut] + by_head_of_members)


@pytest.mark.parametrize("constants", [LDA, KRR], ids=["lda", "krr"])
@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(12)), ends=st.lists(st.integers(0, 12), max_size=4))
def test_any_deletions_in_any_order_leave_the_bytes_of_a_head_that_never_had_the_rows(
    constants, order, ends
):
    memory = ExemplarMemory(*map(torch.from_numpy, (SAMPLES.ids, KEYS, np.zeros((12, 5)), LABELS)))
    cuts = sorted({0, *ends})
    for start, end in pairwise(cuts):
        memory = memory.forget(SAMPLES.ids[list(order[start:end])])
    remaining = System("munkey", replace(ARCHITECTURE, head=constants), None, memory)
    rows = np.sort(order[cuts[-1] :]).astype(int)
    fresh = head_of(remaining, rows).model
    for buffer, expected in zip(
        MUNKEY.fit_added_head(remaining).buffers(), fresh.buffers(), strict=True
    ):
        assert buffer.numpy().tobytes() == expected.numpy().tobytes()


def test_a_file_has_the_labels_and_the_constants_of_the_head(system, tmp_path):
    save(tmp_path / "s.safetensors", system)
    loaded = load(tmp_path / "s.safetensors")
    assert loaded.architecture == system.architecture
    assert loaded.memory.labels.tolist() == LABELS.tolist()
    samples = image_set(7)
    queries = queries_of(system)
    before = answered(system, samples, queries)
    assert answered(loaded, samples, queries).tobytes() == before.tobytes()


def test_a_munkey_without_a_head_has_no_labels_in_memory(params):
    members = MemberKeys(KEYS, others(Keys(SAMPLES.ids, KEYS), 4))
    training = Training(SAMPLES, 3, recipe(params, "munkey"), "cpu", quiet, members)
    system_without_head = MUNKEY.train(training).system
    assert system_without_head.memory.labels is None
    assert system_without_head.architecture.head is None
    assert MUNKEY.fit_added_head(system_without_head) is None
