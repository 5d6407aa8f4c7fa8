"""DELETE, JiT, LoTUS and SFRon against direct loops, step by step as in their originals."""

import math

import pytest
import torch
from torch.nn import functional as F

from munkey.unlearn.methods.sfron import adaptive_mean
from tests.unlearn.direct_loops import (
    RATE,
    assert_result,
    descend,
    fresh_copy,
    one_batch,
    pixels,
)
from tests.unlearn.world import (
    WHOLE,
    column,
    make_request,
    plain_descent,
    tuning,
    unlearn,
    whole,
)


def test_delete_follows_the_originals_answers_without_the_true_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As method/delete.py of its authors: KL to the softmax of logits whose true class is at -1e10."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    images, labels = whole("forget")
    teacher = fresh_copy()
    student = fresh_copy()
    targets = teacher(images).detach()
    targets[torch.arange(len(labels)), labels] = -1e10
    targets = F.softmax(targets, dim=1)
    for _ in range(3):
        answers = F.log_softmax(student(images), dim=1)
        descend(student, F.kl_div(answers, targets, reduction="batchmean"))
    system, request = unlearn("delete", tuned=one_batch(3), changed={"lr_factor": 1.0})
    assert_result(system, student)
    correct = (teacher(images).argmax(dim=1) == labels).sum().item()
    assert correct > 6
    assert request.history[0]["accuracy"] == pytest.approx(100 * correct / 13)


def test_jit_adds_up_the_slopes_of_its_batches() -> None:
    """As src/lipschitz.py of its authors: gradients are cleared once, before the loop over batches."""
    images, _ = whole("forget")
    model = fresh_copy()
    generator = make_request("jit").generator
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in images.split(5):
        answers = model(batch)
        loss = torch.zeros(())
        for _ in range(3):
            noisy = (batch + 0.4 * torch.randn(batch.shape, generator=generator)).clamp(
                batch.min(), batch.max()
            )
            with torch.no_grad():
                others = model(noisy)
            lengths = torch.linalg.vector_norm((batch - noisy).flatten(1), dim=1)
            loss = loss + (torch.linalg.vector_norm(answers - others, dim=1) / lengths).sum()
        (loss / 3).backward()
        optimizer.step()
    changed = {"eta": 0.01, "sigma": 0.4, "samples": 3}
    system, _ = unlearn("jit", tuned=tuning(batch_size=5, augment=WHOLE), changed=changed)
    assert_result(system, model)


def test_lotus_blurs_by_the_excess_of_forget_over_validation_accuracy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As lotus_class.py of its authors; F.gumbel_softmax is softmax((logits + noise) / tau)."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    measured = iter([60.0, 100.0])  # validation once, then the forget set
    monkeypatch.setattr("munkey.unlearn.finetune.measure_accuracy", lambda *_: next(measured))
    generator = make_request("lotus").generator
    teacher = fresh_copy()
    student = fresh_copy()
    retain_pixels = pixels("retain")[torch.randperm(60, generator=generator)]
    order = torch.randperm(73, generator=generator)
    images = WHOLE(torch.cat([retain_pixels, pixels("forget")])[order], generator)
    is_gone = (torch.arange(73) >= 60)[order]
    drawn = teacher(images).detach() - torch.rand((73, 10), generator=generator).log().neg().log()
    blur = math.exp(2.0 * 0.4)
    target = torch.where(
        is_gone[:, None], F.softmax(drawn / blur, 1), F.one_hot(drawn.argmax(1), 10).float()
    )
    descend(student, -(target * F.log_softmax(student(images), 1)).sum(dim=1).mean())
    system, request = unlearn(
        "lotus", tuned=one_batch(1), changed={"lr_factor": 1.0, "alpha": 2.0, "retain_share": 1.0}
    )
    assert request.history[0]["temperature"] == pytest.approx(blur)
    assert_result(system, student)


def test_lotus_stops_once_the_forget_accuracy_is_below_the_validation_accuracy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = iter([90.0, 95.0, 89.0])
    monkeypatch.setattr("munkey.unlearn.finetune.measure_accuracy", lambda *_: next(measured))
    _, request = unlearn("lotus", tuned=tuning(epochs=5))
    assert column(request.history, "epoch") == [1]
    assert request.facts == {"epochs": 1}


@pytest.mark.parametrize(("every", "max_norm"), [(5, 0.05), (1, 100.0)])
def test_sfron_ascends_with_a_mask_before_a_retain_step(
    every: int, max_norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sfron.py of its authors: forget steps, masked and clipped, among retain steps; a cosine of both."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    retain_images, labels = whole("retain")
    forget_images, forget_labels = whole("forget")
    model = fresh_copy()
    names, parameters = zip(*model.named_parameters(), strict=True)
    forget_loss = F.cross_entropy(model(forget_images), forget_labels)
    retain_loss = F.cross_entropy(model(retain_images), labels)
    forget_slopes = torch.autograd.grad(forget_loss, parameters)
    retain_slopes = torch.autograd.grad(retain_loss, parameters)
    masks = []
    for name, f, r in zip(names, forget_slopes, retain_slopes, strict=True):
        mask = (f.square() + 1e-15) / (r.square() + 1e-15) >= 1.5
        if name.endswith("qkv.bias"):
            mask.view(3, -1)[1] = False  # 0 / 0 of rounding noise: TINY / TINY is below 1.5
        masks.append(mask)
    norms = []
    for step, share in enumerate((1.0, 0.5)):  # of both rates: (1 + cos(pi * step / 2)) / 2
        if step % every == 0:
            losses = F.cross_entropy(model(forget_images), forget_labels, reduction="none")
            coefficients = 1 / (losses.detach() ** 0.5 + 1e-15)
            ascent = (
                -3.0 * share * (coefficients / coefficients.sum() * losses * len(losses)).mean()
            )
            slopes = torch.autograd.grad(ascent, parameters)
            gradients = [slope * mask for slope, mask in zip(slopes, masks, strict=True)]
            norms.append(torch.stack([gradient.norm() for gradient in gradients]).norm().item())
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.data -= RATE * share * gradient * min(1.0, max_norm / (norms[-1] + 1e-6))
        descend(model, F.cross_entropy(model(retain_images), labels), RATE * share)
    changed = {
        "lr_factor": 1.0,
        "every": every,
        "alpha": 3.0,
        "lam": 0.5,
        "gamma": 1.5,
        "max_norm": max_norm,
    }
    system, request = unlearn("sfron", tuned=one_batch(2), changed=changed)
    assert min(norms) > 0.05
    assert max(norms) < 100
    assert request.facts == {"movable": sum(int(mask.sum()) for mask in masks)}
    assert_result(system, model)


def test_sfron_may_move_key_biases_although_they_matter_to_neither_set() -> None:
    """Of both sets their importance is 0, and (0 + 1e-15) / (0 + 1e-15) is 1: they may move up to a gamma of 1."""
    movable = []
    for gamma in (1.0, 1.0 + 1e-6):
        _, request = unlearn("sfron", tuned=one_batch(1), changed={"gamma": gamma})
        movable.append(request.facts["movable"])
    assert movable[0] - movable[1] == 2 * 16  # two blocks of width 16


def test_sfron_weighs_a_loss_less_the_higher_it_is() -> None:
    losses = torch.tensor([1.0, 4.0], requires_grad=True)
    mean = adaptive_mean(losses, 0.5)  # weights 1 and 1/2, scaled to 2/3 and 1/3
    mean.backward()
    assert mean.item() == pytest.approx(2.0)
    assert losses.grad is not None
    assert losses.grad.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert adaptive_mean(torch.tensor([1.0, 4.0]), 0.0).item() == pytest.approx(2.5)
