"""Newton removal against Newton steps by hand, and its certificate against what it promises."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm as normal
from torch.nn.functional import logsigmoid

from munkey.encoders.keys import Keys
from munkey.models.family import System
from munkey.models.networks.logistic import TOLERANCE, Objective
from munkey.unlearn.contract import METHODS, Request
from tests.conftest import unit_rows
from tests.models.inputs import fitted

LABELS = np.arange(40) % 3
KEYS = Keys(10 + 2 * np.arange(40), unit_rows(40, 4))
GONE, LEFT = KEYS.ids[:8], slice(8, 40)
C = math.sqrt(2 * math.log(1.5e5))


def removed(system: System, **changed: float) -> tuple[System, Request]:
    method, asked = METHODS["newton"], Request(GONE, torch.Generator(), "cpu", print, frozenset(), {})
    settings = method.settings(**{"epsilon": 1.0, "delta": 1e-5, "steps": 1} | changed)
    return method.run(system, asked, settings), asked


def original(sigma: float = 0.1) -> System:
    return fitted("newton", KEYS, LABELS, sigma=sigma)


def of_rows_left(system: System) -> Objective:
    keys, labels = torch.from_numpy(KEYS.keys[LEFT]).double(), torch.from_numpy(LABELS[LEFT])
    return Objective(keys, labels, system.model.noise, 0.01)


def test_enough_steps_are_a_refit_with_the_same_noise() -> None:
    before = original()
    left, asked = removed(before, steps=6)
    refit = of_rows_left(before).solved(torch.zeros(3, 4).double())
    torch.testing.assert_close(left.model.weight, refit, rtol=0, atol=1e-8)
    assert asked.facts["steps"] == 6 and asked.facts["epsilon"] < 1e-6
    assert left.memory.ids.tolist() == KEYS.ids[LEFT].tolist() and (before.model.weight - refit).norm() > 0.1
    assert torch.equal(left.model.noise, before.model.noise)


def test_one_step_by_hand() -> None:
    before = original(sigma=100.0)
    left, asked = removed(before)
    keys, signs = KEYS.keys[LEFT].astype(float), 2 * np.eye(3)[LABELS[LEFT]] - 1
    weight, noise = before.model.weight.numpy(), before.model.noise.numpy()
    for head in range(3):
        p = 1 / (1 + np.exp(-keys @ weight[head]))
        hessian = sum(q * (1 - q) * np.outer(k, k) for q, k in zip(p, keys, strict=True)) + 0.01 * 32 * np.eye(4)
        gradient = sum((q - (y > 0)) * k for q, y, k in zip(p, signs[:, head], keys, strict=True))
        gradient = gradient + 0.01 * 32 * weight[head] + noise[head]
        stepped = weight[head] - np.linalg.inv(hessian) @ gradient
        np.testing.assert_allclose(left.model.weight[head], stepped, rtol=1e-9, atol=1e-9)
    assert asked.facts["steps"] == 1


def test_what_it_reports_follows_from_the_gradient_of_all_heads_together() -> None:
    before = original(sigma=2.0)
    left, asked = removed(before)
    weight = left.model.weight.clone().requires_grad_()
    keys, signs = torch.from_numpy(KEYS.keys[LEFT]).double(), torch.from_numpy(2 * np.eye(3)[LABELS[LEFT]] - 1)
    loss = -logsigmoid(signs * (keys @ weight.T)).sum() + 0.01 * 32 / 2 * weight.square().sum()
    (gradient,) = torch.autograd.grad(loss + (before.model.noise * weight).sum(), weight)
    residual = math.sqrt(sum(float(number) ** 2 for number in gradient.flatten()))
    assert asked.facts["residual"] == pytest.approx(residual, rel=1e-6) and residual > 1e-6
    assert asked.facts["epsilon"] == pytest.approx(C * (residual + TOLERANCE) / 2.0) and asked.facts["delta"] == 1e-5
    assert asked.facts["budget"] == 1.0


def test_it_steps_until_the_budget_is_met_and_refuses_where_it_never_is() -> None:
    steps = [removed(original(), epsilon=epsilon)[1].facts["steps"] for epsilon in (1.0, 1e-3, 1e-6)]
    assert steps == sorted(steps) and steps[0] < steps[2]
    with pytest.raises(ValueError, match="over the budget of 1e-09: retrain instead"):
        removed(original(), epsilon=1e-9)
    with pytest.raises(ValueError, match="epsilon"):
        removed(original(), epsilon=1.5)  # the proof ends at 1


def excess(sigma: float, claimed: float | None = None) -> tuple[float, float]:
    """The largest P(event) - e^claimed Q(event) over half-lines of a weight, in either direction; and what is claimed,
    by default the epsilon of the largest residual, at delta = 0.01.

    2,000 heads of one weight each, their b at equal quantiles. P: after one Newton step. Q: retrained, exactly: such a
    weight is at most t where b is at least minus the gradient at t without b.
    """
    count, grown = 2000, np.random.default_rng(0).normal(size=(24, 1)) + 0.5
    ranks = (np.arange(count) + 0.5) / count
    noise = torch.from_numpy(np.append(sigma * normal.ppf(ranks), 0.0))[:, None]
    keys, others = torch.from_numpy(grown), torch.full((24,), count)  # to each head, every row is of another class
    before = Objective(keys, others, noise, 0.1).solved(torch.zeros(count + 1, 1).double())
    after = Objective(keys[4:], others[4:], noise, 0.1)
    weight = after.stepped(before)
    gradient = after.gradient(weight)
    if claimed is None:
        claimed = math.sqrt(2 * math.log(1.5 / 0.01)) * float(gradient[:-1].abs().max()) / sigma
    order, grow = np.argsort(weight[:-1, 0].numpy()), math.exp(claimed)
    p, q = ranks, normal.sf(-(gradient - noise)[:-1, 0].numpy()[order] / sigma)
    both = [p - grow * q, q - grow * p, (1 - p) - grow * (1 - q), (1 - q) - grow * (1 - p)]
    return float(max(each.max() for each in both)), claimed


def test_removed_and_retrained_are_as_alike_as_certified_and_with_less_noise_they_are_not() -> None:
    found = {sigma: excess(sigma) for sigma in (0.1, 0.5, 2.0)}
    assert all(over < 0.01 and claimed < 1 for over, claimed in found.values())
    assert excess(0.05, claimed=found[0.5][1])[0] > 0.1  # the control
    assert excess(0.5, claimed=found[0.5][1] / 20)[0] > 1e-3  # there is something to certify
