"""A logistic regression of keys with noisy weights: at its optimum, noisy by its stage, and stored as it is."""

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from munkey.core.randomness import Stage
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import Neighbors
from munkey.models import system as systems
from munkey.models.family import FAMILIES, Retrieval
from munkey.models.networks.logistic import TOLERANCE, Objective
from tests.conftest import image_set, unit_rows
from tests.models.inputs import DATA, SECTIONS, fitted

LABELS = np.arange(40) % 3
KEYS = Keys(10 + 2 * np.arange(40), unit_rows(40, 4))


def loss(system, weight):
    """The objective, term by term."""
    keys = torch.from_numpy(KEYS.keys).double()
    signs = 2.0 * torch.from_numpy(np.eye(3)[LABELS]) - 1
    fit = -logsigmoid(signs * (keys @ weight.T)).sum()
    return fit + 0.01 * len(keys) / 2 * weight.square().sum()


def test_the_weights_without_noise_are_the_optimum_of_the_objective():
    system = fitted("newton", KEYS, LABELS)
    weight = system.model.weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(system, weight), weight)
    assert gradient.norm() < 2 * TOLERANCE
    assert system.model.noise.norm() > 0.1
    other = weight.detach() + 0.1 * torch.from_numpy(unit_rows(3, 4, seed=1))
    objective = Objective.from_memory(system.memory, 0.01)
    (expected,) = torch.autograd.grad(loss(system, other.requires_grad_()), other)
    torch.testing.assert_close(objective.gradient(other.detach()), expected)


def test_the_noise_is_that_of_the_stage_with_the_given_sd():
    kind = FAMILIES["newton"]
    keys = Keys(np.arange(60), unit_rows(60, 50))
    labels = np.arange(60) % 3
    section = kind.read_section({"newton": SECTIONS["newton"]})
    first = kind.fit(keys, labels, 40, section, Stage(0)).model.noise
    again = kind.fit(keys, labels, 40, section, Stage(0)).model.noise
    other = kind.fit(keys, labels, 40, section, Stage(1)).model.noise
    assert first.shape == (40, 50)
    assert torch.equal(first, again)
    assert abs(np.corrcoef(first.flatten(), other.flatten())[0, 1]) < 0.1
    assert first.std().item() == pytest.approx(0.1, rel=0.05)
    assert first.mean().abs() < 0.01
    with pytest.raises(ValueError, match="needs a stage"):
        kind.fit(keys, labels, 40, section)


def test_a_loaded_head_answers_by_its_noisy_weights(tmp_path):
    system = fitted("newton", KEYS, LABELS)
    queries = Retrieval(None, keys=unit_rows(7, 4, seed=9))
    systems.save(tmp_path / "system", system)
    answers = FAMILIES["newton"].predict_logits(
        systems.load(tmp_path / "system"), image_set(7), DATA, "cpu", queries
    )
    published = system.model.weight.numpy() + system.model.noise.numpy()
    np.testing.assert_allclose(answers, queries.keys @ published.T, rtol=1e-5, atol=1e-6)
    assert np.abs(queries.keys @ system.model.noise.numpy().T).max() > 0.01


def test_added_rows_are_fitted_with_the_same_noise_and_rows_are_dropped_only_by_removal():
    kind = FAMILIES["newton"]
    first = Keys(KEYS.ids[:30], KEYS.keys[:30])
    added = kind.add_samples(
        fitted("newton", first, LABELS[:30]), Keys(KEYS.ids[30:], KEYS.keys[30:]), LABELS[30:], None
    )
    torch.testing.assert_close(
        added.model.weight, fitted("newton", KEYS, LABELS).model.weight, rtol=0, atol=1e-8
    )
    assert torch.equal(added.model.noise, fitted("newton", first, LABELS[:30]).model.noise)
    with pytest.raises(TypeError, match="the method `newton`"):
        kind.forget(added, KEYS.ids[:1])
    assert kind.make_retrieval(Neighbors(None, None), {}).settings is None
    assert not kind.exact


def test_steps_far_from_the_optimum_are_shortened_until_they_help(monkeypatch):
    """Full Newton steps from there diverge."""
    far = torch.full((3, 4), 40.0).double()
    objective = Objective.from_memory(fitted("newton", KEYS, LABELS).memory, 1e-4)
    assert objective.gradient(objective.newton_step(far)).norm() < objective.gradient(far).norm()
    torch.testing.assert_close(
        objective.solve(far), objective.solve(torch.zeros(3, 4).double()), rtol=0, atol=1e-6
    )
    monkeypatch.setattr("munkey.models.networks.logistic.MAX_STEPS", 1)
    with pytest.raises(ValueError, match=r"increase newton\.lam"):
        objective.solve(far)
