"""DELETE, JiT, LoTUS and SFRon against direct loops, step by step as in their originals."""

import math

import pytest
import torch
from torch.nn import functional as F

from munkey.unlearn.contract import Tuning
from munkey.unlearn.methods.sfron import adaptive_mean
from tests.unlearn.world import (
    WHOLE,
    original,
    plain_descent,
    request,
    tuning,
    unlearn,
    weights,
    whole,
    world,
)

RATE = 0.2


def pixels(part: str) -> torch.Tensor:
    """All images of a part, in [0, 1]."""
    samples = world().parts[part]
    return samples.batch(torch.arange(len(samples)), "cpu").images


def one_batch(epochs: int) -> Tuning:
    return tuning(epochs=epochs, batch_size=100, augment=WHOLE, lr=RATE)


def descend(model: torch.nn.Module, loss: torch.Tensor, rate: float = RATE) -> None:
    parameters = tuple(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= rate * gradient


def assert_equal(
    found: dict[str, torch.Tensor], model: torch.nn.Module, start: torch.nn.Module
) -> None:
    expected = model.state_dict()
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-4)
    assert (
        max((expected[name] - value).abs().max() for name, value in start.state_dict().items())
        > 1e-3
    )


def test_delete_follows_the_originals_answers_without_the_true_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As method/delete.py of its authors: KL to the softmax of logits whose true class is at -1e10."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    (images, labels), teacher, student = (
        whole("forget"),
        *(original("cf").copy_model() for _ in range(2)),
    )
    for _ in range(3):
        taught = teacher(images).detach()
        taught[torch.arange(len(labels)), labels] = -1e10
        descend(
            student,
            F.kl_div(
                F.log_softmax(student(images), 1), F.softmax(taught, 1), reduction="batchmean"
            ),
        )
    system, asked = unlearn("delete", tuned=one_batch(3), changed={"lr_factor": 1.0})
    assert_equal(weights(system), student, teacher)
    correct = (teacher(images).argmax(dim=1) == labels).sum().item()
    assert correct > 6 and asked.history[0]["accuracy"] == pytest.approx(100 * correct / 13)


def test_jit_adds_up_the_slopes_of_its_batches() -> None:
    """As src/lipschitz.py of its authors: gradients are cleared once, before the loop over batches."""
    (images, _), start, model = whole("forget"), *(original("cf").copy_model() for _ in range(2))
    generator = request("jit").generator
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
    assert_equal(weights(system), model, start)


def test_lotus_blurs_by_the_excess_of_forget_over_validation_accuracy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As lotus_class.py of its authors; F.gumbel_softmax is softmax((logits + noise) / tau)."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    measured = iter([60.0, 100.0])  # validation once, then the forget set
    monkeypatch.setattr("munkey.unlearn.finetune.measure_accuracy", lambda *_: next(measured))
    generator, teacher, student = (
        request("lotus").generator,
        *(original("cf").copy_model() for _ in range(2)),
    )
    retain, gone = (pixels(part) for part in ("retain", "forget"))
    kept = retain[torch.randperm(60, generator=generator)]
    order = torch.randperm(73, generator=generator)
    images = WHOLE(torch.cat([kept, gone])[order], generator)
    is_gone = (torch.arange(73) >= 60)[order]
    drawn = teacher(images).detach() - torch.rand((73, 10), generator=generator).log().neg().log()
    blur = math.exp(2.0 * 0.4)
    target = torch.where(
        is_gone[:, None], F.softmax(drawn / blur, 1), F.one_hot(drawn.argmax(1), 10).float()
    )
    descend(student, -(target * F.log_softmax(student(images), 1)).sum(dim=1).mean())
    system, asked = unlearn(
        "lotus", tuned=one_batch(1), changed={"lr_factor": 1.0, "alpha": 2.0, "retain_share": 1.0}
    )
    assert asked.history[0]["temperature"] == pytest.approx(blur)
    assert_equal(weights(system), student, teacher)


def test_lotus_stops_once_the_forget_set_is_answered_as_unsurely_as_new_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = iter([90.0, 95.0, 89.0])
    monkeypatch.setattr("munkey.unlearn.finetune.measure_accuracy", lambda *_: next(measured))
    _, asked = unlearn("lotus", tuned=tuning(epochs=5))
    assert [entry["epoch"] for entry in asked.history] == [1] and asked.facts == {"epochs": 1}


@pytest.mark.parametrize(("every", "max_norm"), [(5, 0.05), (1, 100.0)])
def test_sfron_ascends_with_a_mask_before_a_retain_step(
    every: int, max_norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sfron.py of its authors: forget steps, masked and clipped, among retain steps; a cosine of both."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    kept, labels = whole("retain")
    dropped, gone = whole("forget")
    start, model = (original("cf").copy_model() for _ in range(2))

    def squared(images: torch.Tensor, targets: torch.Tensor) -> list[torch.Tensor]:
        return [
            g.square()
            for g in torch.autograd.grad(
                F.cross_entropy(start(images), targets), start.parameters()
            )
        ]

    masks = [
        (f + 1e-15) / (r + 1e-15) >= 1.5
        for f, r in zip(squared(dropped, gone), squared(kept, labels), strict=True)
    ]
    for name, mask in zip(dict(start.named_parameters()), masks, strict=True):
        if name.endswith("qkv.bias"):
            mask.view(3, -1)[1] = False  # 0 / 0 of rounding noise: TINY / TINY is below 1.5
    norms = []
    for step, share in enumerate((1.0, 0.5)):  # of both rates: (1 + cos(pi * step / 2)) / 2
        if step % every == 0:
            losses = F.cross_entropy(model(dropped), gone, reduction="none")
            coefficients = 1 / (losses.detach() ** 0.5 + 1e-15)
            ascent = (
                -3.0 * share * (coefficients / coefficients.sum() * losses * len(losses)).mean()
            )
            climbed = torch.autograd.grad(ascent, tuple(model.parameters()))
            gradients = [g * mask for g, mask in zip(climbed, masks, strict=True)]
            norms.append(torch.stack([g.norm() for g in gradients]).norm().item())
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.data -= RATE * share * gradient * min(1.0, max_norm / (norms[-1] + 1e-6))
        descend(model, F.cross_entropy(model(kept), labels), RATE * share)
    changed = {
        "lr_factor": 1.0,
        "every": every,
        "alpha": 3.0,
        "lam": 0.5,
        "gamma": 1.5,
        "max_norm": max_norm,
    }
    system, asked = unlearn("sfron", tuned=one_batch(2), changed=changed)
    assert (
        min(norms) > 0.05
        and max(norms) < 100
        and asked.facts == {"movable": sum(int(mask.sum()) for mask in masks)}
    )
    assert_equal(weights(system), model, start)


def test_sfron_may_move_key_biases_which_matter_to_neither_set() -> None:
    """Of both sets their importance is 0, and (0 + 1e-15) / (0 + 1e-15) is 1: they may move up to a gamma of 1."""
    movable = []
    for gamma in (1.0, 1.0 + 1e-6):
        _, asked = unlearn("sfron", tuned=one_batch(1), changed={"gamma": gamma})
        movable.append(asked.facts["movable"])
    biases = [
        value for name, value in weights(original("sfron")).items() if name.endswith("qkv.bias")
    ]
    assert movable[0] - movable[1] == sum(len(bias) // 3 for bias in biases) > 0


def test_sfrons_losses_count_less_the_higher_they_are() -> None:
    losses = torch.tensor([1.0, 4.0], requires_grad=True)
    found = adaptive_mean(losses, 0.5)  # weights 1 and 1/2, scaled to 2/3 and 1/3
    found.backward()
    assert found.item() == pytest.approx(2.0)
    assert losses.grad is not None and losses.grad.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert adaptive_mean(torch.tensor([1.0, 4.0]), 0.0).item() == pytest.approx(2.5)
