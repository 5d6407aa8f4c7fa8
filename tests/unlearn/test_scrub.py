"""SCRUB against a direct loop of max and min steps, and its rewinding."""

import copy
from itertools import chain

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from munkey.unlearn.finetune import distillation_loss
from tests.unlearn.direct_loops import assert_result, descend, fresh_copy, one_batch
from tests.unlearn.world import (
    column,
    plain_descent,
    recorded,
    sizes,
    tuning,
    unlearn,
    whole,
)

GAMMA = 0.7
ALPHA = 0.5
T = 4.0
CHANGED = {
    "lr_factor": 1.0,
    "gamma": GAMMA,
    "alpha": ALPHA,
    "temperature": T,
    "forget_batch_size": 100,
}


def divergence(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    p = (teacher / T).softmax(dim=1)
    q = (student / T).softmax(dim=1)
    return T**2 * (p * (p.log() - q.log())).sum(dim=1).mean()


def percent(model: torch.nn.Module, part: str) -> float:
    images, labels = whole(part)
    return 100 * (model(images).argmax(dim=1) == labels).double().mean().item()


@pytest.mark.parametrize("best_epoch", [1, 2, 3])
def test_max_and_min_steps_equal_a_direct_loop(
    monkeypatch: pytest.MonkeyPatch, best_epoch: int
) -> None:
    """Three epochs of one full batch, the second with a max step, seen after each: the rewinding is made to choose it.

    The first epoch has no max step: the student still equals its teacher. Were the teacher to share weights with the
    student, the divergence would stay 0.
    """
    plain_descent(monkeypatch, "munkey.training.loop")
    accuracies = {
        1: [0.0, 0.0, 1.0, 0.0, 2.0, 0.0],
        2: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        3: [2.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    }
    measured = iter(accuracies[best_epoch])  # of validation and forget set, after each epoch
    monkeypatch.setattr("munkey.unlearn.finetune.measure_accuracy", lambda *_: next(measured))
    retain_images, labels = whole("retain")
    forget_images, _ = whole("forget")
    teacher = fresh_copy("scrub")
    student = copy.deepcopy(teacher)
    away = torch.zeros(())
    for epoch in range(1, best_epoch + 1):
        if epoch == 2:
            away = -divergence(student(forget_images), teacher(forget_images).detach())
            assert away.item() < -1e-2
            descend(student, away)
        logits = student(retain_images)
        near = divergence(logits, teacher(retain_images).detach())
        descend(student, GAMMA * F.cross_entropy(logits, labels) + ALPHA * near)
    changed = CHANGED | {"max_epochs": 2, "decay_after": []}
    system, request = unlearn("scrub", tuned=one_batch(3), changed=changed)
    assert request.facts == {"chosen_epoch": best_epoch, "validation_gap": 0}
    assert_result(system, student)


def test_scrub_returns_the_epoch_with_the_smallest_validation_gap() -> None:
    system, request = unlearn("scrub", tuned=tuning(epochs=6, lr=0.01))
    gaps = np.abs(
        np.subtract(
            column(request.history, "val_accuracy"), column(request.history, "forget_accuracy")
        )
    )
    best_epoch = request.facts["chosen_epoch"]
    assert best_epoch == 1 + gaps.argmin()
    assert len(set(gaps)) > 1
    best = request.history[best_epoch - 1]
    assert percent(system.model, "val") == pytest.approx(best["val_accuracy"])
    assert percent(system.model, "forget") == pytest.approx(best["forget_accuracy"])


def test_the_rate_falls_after_the_epochs_of_decay_after() -> None:
    _, request = unlearn(
        "scrub",
        tuned=tuning(epochs=10, lr=1.0),
        changed={"lr_factor": 0.001, "decay_after": [5, 8, 9]},
    )
    expected = [1e-3] * 5 + [1e-4] * 3 + [1e-5, 1e-6]
    assert column(request.history, "lr") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("accuracies", "best_epoch"),
    [
        ([(50, 60), (60, 50), (50, 61)], 1),  # equal gaps of 10 on either side: the first of them
        ([(70, 40), (50, 52), (40, 90)], 2),
        ([(50, 90), (50, 30), (60, 57)], 3),  # -40 is no smaller gap than 3
    ],
)
def test_scrub_rewinds_to_the_first_epoch_of_the_smallest_absolute_gap(
    accuracies: list[tuple[float, float]], best_epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = chain(*accuracies)
    monkeypatch.setattr("munkey.unlearn.finetune.measure_accuracy", lambda *_: next(measured))
    _, request = unlearn("scrub", tuned=tuning(epochs=3))
    val, forget = accuracies[best_epoch - 1]
    assert request.facts == {"chosen_epoch": best_epoch, "validation_gap": abs(val - forget)}


def test_a_student_that_equals_its_teacher_has_no_gradient_at_all() -> None:
    """That of torch's kl_div is rounding noise, of which AdamW would make full steps."""
    logits = torch.randn(64, 10, generator=torch.Generator().manual_seed(0)) * 5
    for temperature in (1.0, 2.0, 4.0):
        student = logits.clone().requires_grad_()
        loss = distillation_loss(student, logits, temperature)
        (gradient,) = torch.autograd.grad(loss, student)
        assert loss.item() == pytest.approx(0, abs=2e-6)
        assert not gradient.any()


@pytest.mark.parametrize(
    ("epochs", "max_epochs", "of_forget"),
    [
        (1, 3, [13]),
        (2, 2, [13, 5, 5, 3, 13]),
        (2, 9, [13, 5, 5, 3, 13]),
        (3, 2, [13, 5, 5, 3, 13, 13]),
    ],
)
def test_max_passes_begin_the_epochs_from_the_second_to_max_epochs(
    epochs: int, max_epochs: int, of_forget: list[int]
) -> None:
    """They have batches of their own size. After each epoch the forget set is read as a whole, for its accuracy."""
    data, logs = recorded()
    changed = {"forget_batch_size": 5, "max_epochs": max_epochs}
    unlearn("scrub", tuned=tuning(epochs=epochs), changed=changed, data=data)
    assert sizes(logs["retain"]) == epochs * [16, 16, 16, 12]
    assert sizes(logs["forget"]) == of_forget
