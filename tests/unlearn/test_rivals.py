"""LFSSD, ASSD, Boundary Shrink, FCS, MSG, CT, UNSIR and RUM against direct loops, step by step as their originals."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional as F

from munkey.data.image_set import LabeledImages
from munkey.unlearn.contract import METHODS
from munkey.unlearn.finetune import make_step_scaler
from tests.unlearn.direct_loops import (
    RATE,
    assert_result,
    descend,
    fresh_copy,
    one_batch,
    pixels,
)
from tests.unlearn.world import (
    BATCH,
    LINEAR_LAYERS,
    WHOLE,
    column,
    make_request,
    original,
    plain_descent,
    same,
    settings,
    tuning,
    unlearn,
    weights,
    whole,
    world,
)

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def squared_norm(logits: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """As the README of SSD's authors."""
    return torch.norm(logits, p="fro", dim=1).pow(2).mean()


def everything() -> LabeledImages:
    """D: the retain set, then the forget set."""
    retain_images, retain_labels = whole("retain")
    forget_images, forget_labels = whole("forget")
    return LabeledImages(
        torch.cat([retain_images, forget_images]), torch.cat([retain_labels, forget_labels])
    )


def mean_size(
    samples: LabeledImages, batch: int, loss: Loss, power: int
) -> dict[str, torch.Tensor]:
    """By name, the mean over batches of |gradient of a batch's loss|^power, the long way."""
    model = fresh_copy()
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    batches = list(zip(samples.images.split(batch), samples.labels.split(batch), strict=True))
    for images, labels in batches:
        model.zero_grad()
        loss(model(images), labels).backward()
        for name, p in model.named_parameters():
            total[name] += p.grad.abs() ** power / len(batches)
    for name, size in total.items():
        if name.endswith("qkv.bias"):
            size[16:32] = 0  # width 16: query, key, value
    return total


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize(
    ("name", "loss", "power"),
    [("ssd", F.cross_entropy, 2), ("lfssd", squared_norm, 1), ("assd", F.cross_entropy, 2)],
)
def test_ssd_and_its_variants_dampen_as_direct_loops(
    name: str, loss: Loss, power: int, per_sample: bool
) -> None:
    """ASSD's alpha as error_unlearning.ipynb of its authors; per sample as ssd_det.py and lfssd_det.py of SUPREME."""
    batch = 1 if per_sample else BATCH
    alpha = 1.5
    of_forget = mean_size(whole("forget"), batch, loss, power)
    of_all = mean_size(everything(), batch, loss, power)
    if name == "assd":
        ratios = torch.cat([(of_forget[key] / of_all[key]).flatten() for key in of_forget])
        ratios = ratios[ratios.isfinite()].sort().values
        place = (100 - math.log(1 + 100 * 13 / 73)) / 100 * (len(ratios) - 1)
        below = ratios[math.floor(place)]
        above = ratios[math.ceil(place)]
        alpha = (below + (place - math.floor(place)) * (above - below)).item()
    changed = {"lam": 0.5, "per_sample": per_sample}
    if name != "assd":
        changed["alpha"] = 1.5
    system, request = unlearn(name, changed=changed)
    assert request.facts.get("alpha", 1.5) == pytest.approx(alpha, rel=1e-3)
    after = weights(system)
    for key, before in weights(original("cf")).items():
        ratio = of_forget[key] / of_all[key]
        factor = (0.5 / ratio).clamp(max=1)
        expected = before * factor.where(ratio > alpha, 1)
        # Ties may fall either way.
        is_clear = ((ratio - alpha).abs() > 1e-3 * alpha) | (of_forget[key] == 0)
        assert is_clear.float().mean() > 0.9
        torch.testing.assert_close(after[key][is_clear], expected[is_clear], rtol=1e-3, atol=1e-6)
    assert 100 < request.facts["dampened"] < 5000


@pytest.mark.parametrize("name", ["ssd", "lfssd", "assd"])
def test_importances_per_sample_do_not_depend_on_batches(name: str) -> None:
    changed = {"per_sample": True, "lam": 0.5}
    small, _ = unlearn(name, tuned=tuning(batch_size=5), changed=changed)
    large, _ = unlearn(name, tuned=tuning(batch_size=16), changed=changed)
    assert same(weights(small), weights(large))


def test_boundary_shrink_takes_labels_from_across_the_boundary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As boundary_unlearning.py and adv_generator.py of its authors: one step of FGSM against the original."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    images, labels = whole("forget")
    teacher = fresh_copy()
    student = fresh_copy()
    leaf = images.clone().requires_grad_()
    F.cross_entropy(teacher(leaf), labels).backward()
    moved = (pixels("forget") + 0.3 * leaf.grad.sign()).clamp(0, 1)
    nearest = teacher((torch.round(moved * 255) / 255 - 0.5) / 0.5).argmax(dim=1)
    assert (nearest != labels).sum() > 0
    for _ in range(3):
        descend(student, F.cross_entropy(student(images), nearest))
    system, _ = unlearn(
        "boundary-shrink", tuned=one_batch(3), changed={"lr_factor": 1.0, "bound": 0.3}
    )
    assert_result(system, student)


def test_fcs_makes_answers_uniform_then_contrasts_and_repairs_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As kgltop1.py of deepunlearn: a pass to uniform answers, then rounds of contrast and of fine-tuning."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    retain_images, labels = whole("retain")
    forget_images, _ = whole("forget")
    model = fresh_copy()
    uniform = torch.full((len(forget_images), 10), 0.1)
    answers = F.log_softmax(model(forget_images), dim=1)
    descend(model, F.kl_div(answers, uniform, reduction="batchmean"), 2.0 * RATE)
    for rate in (RATE, RATE / 2):
        others = model(retain_images).detach()
        similarities = model(forget_images) @ others.T / 1.3
        descend(model, -F.log_softmax(similarities, dim=1).mean(), 0.5 * rate)
        descend(model, F.cross_entropy(model(retain_images), labels))
    changed = {"lr_factor": 1.0, "first": 2.0, "contrast": 0.5, "temperature": 1.3}
    system, request = unlearn("fcs", tuned=one_batch(2), changed=changed)
    assert column(request.history, "epoch") == [1, 2]
    assert_result(system, model)


@pytest.mark.parametrize(
    ("name", "layer"), [("msg", "Conv2d"), ("msg-linear", r"Linear with '\.blocks\.'")]
)
def test_msg_refuses_a_network_without_layers_to_renew(name: str, layer: str) -> None:
    other = replace(original(name), model=torch.nn.Sequential(torch.nn.Linear(2, 2)))
    with pytest.raises(ValueError, match=f"MSG: .*{layer}"):
        METHODS[name].run(other, make_request(name), settings(name))


@pytest.mark.parametrize(
    ("name", "layers"), [("msg", ["patch_embed.proj"]), ("msg-linear", LINEAR_LAYERS)]
)
def test_msg_renews_small_gradients_and_holds_the_rest(
    name: str, layers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kgltop2.py of deepunlearn: gradients of kept weights times 0.1, rates of two epochs 1 and 1/2."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    retain_images, labels = whole("retain")
    forget_images, forget_labels = whole("forget")
    generator = make_request(name).generator
    model = fresh_copy()
    drawn = torch.randperm(60, generator=generator)[:13]
    retain_rows = drawn[torch.randperm(13, generator=generator)]
    forget_rows = torch.randperm(13, generator=generator)
    F.cross_entropy(model(retain_images[retain_rows]), labels[retain_rows]).backward()
    (-F.cross_entropy(model(forget_images[forget_rows]), forget_labels[forget_rows])).backward()
    scale = {}
    for layer in layers:
        weight = model.get_parameter(f"{layer}.weight")
        new = torch.zeros_like(weight, dtype=torch.bool)
        by_gradient = weight.grad.abs().flatten().argsort(stable=True)
        new.view(-1)[by_gradient[: int(0.3 * weight.numel())]] = True
        fan_out = len(weight) * weight[0, 0].numel()
        fresh = torch.empty(weight.shape).normal_(0, math.sqrt(2 / fan_out), generator=generator)
        weight.data = torch.where(new, fresh, weight.data)
        scale[f"{layer}.weight"] = torch.where(new, 1.0, 0.1)
    for rate in (RATE, RATE / 2):
        gradients = torch.autograd.grad(
            F.cross_entropy(model(retain_images), labels), tuple(model.parameters())
        )
        for (key, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
            parameter.data -= rate * scale.get(key, 1.0) * gradient
    system, _ = unlearn(
        name, tuned=one_batch(2), changed={"lr_factor": 1.0, "init_rate": 0.3, "held": 0.1}
    )
    assert_result(system, model)


def test_msg_scales_weight_decay_too() -> None:
    """Weights whose gradient is zero: AdamW alone moves them."""
    model = torch.nn.Linear(4, 4, bias=False)
    torch.nn.init.ones_(model.weight)
    factors = torch.tensor([1.0, 1.0, 0.1, 0.1]).expand(4, 4)
    hold = make_step_scaler({"weight": factors})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    hold(model)
    model.weight.grad = torch.zeros_like(model.weight)
    optimizer.step()
    hold(model)
    torch.testing.assert_close(model.weight.detach(), 1 - 0.05 * factors)


def test_ct_transposes_each_kernel_and_fine_tunes_by_a_cosine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As kgltop5.py of deepunlearn. Two batches an epoch: the rate falls between epochs alone."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    generator = make_request("ct").generator
    samples = world().parts["retain"]
    model = fresh_copy()
    kernels = model.patch_embed.proj.weight
    kernels.data = kernels.data.swapaxes(2, 3).contiguous()
    for rate in (RATE, 0.75 * RATE, 0.25 * RATE):
        for index in torch.randperm(60, generator=generator).split(40):
            images, labels = samples.batch(index, "cpu")
            descend(model, F.cross_entropy(model(WHOLE(images, generator)), labels), rate)
    system, request = unlearn("ct", tuned=tuning(3, 40, WHOLE, RATE), changed={"lr_factor": 1.0})
    assert column(request.history, "lr") == pytest.approx([RATE, 0.75 * RATE, 0.25 * RATE])
    assert_result(system, model)


def test_unsir_learns_noise_as_the_forgotten_classes_then_repairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the notebook of its authors, but each class's noise has its own label."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    generator = make_request("unsir").generator
    retain = world().parts["retain"]
    model = fresh_copy()
    rows = []  # the first three of each class
    for row, label in enumerate(retain.labels):
        if (retain.labels[:row] == label).sum() < 3:
            rows.append(row)
    images, labels = retain.batch(torch.tensor(rows), "cpu")
    noises = []
    noise_labels = []
    for label in sorted(set(world().parts["forget"].labels.tolist())):
        noise = torch.randn((16, 3, 8, 8), generator=generator).requires_grad_()
        optimizer = torch.optim.Adam([noise], lr=0.1)
        target = torch.full((16,), label)
        for _ in range(4):
            optimizer.zero_grad()
            size = torch.sum(noise**2, [1, 2, 3]).mean()
            loss = -F.cross_entropy(model(noise), target) + 0.1 * size
            loss.backward()
            optimizer.step()
        noises.append(0.5 + 0.5 * noise.detach())
        noise_labels.append(target)
    noisy = LabeledImages(torch.cat([images, *noises * 2]), torch.cat([labels, *noise_labels * 2]))
    for (pool, targets), rate in ((noisy, RATE), ((images, labels), RATE / 4)):
        for index in torch.randperm(len(pool), generator=generator).split(16):
            answers = model(WHOLE(pool[index], generator))
            descend(model, F.cross_entropy(answers, targets[index]), rate)
    changed = {
        "lr_factor": 1.0,
        "noise_steps": 4,
        "copies": 2,
        "retain_per_class": 3,
        "repair": 0.25,
    }
    system, _ = unlearn("unsir", tuned=tuning(2, 16, WHOLE, RATE), changed=changed)
    assert_result(system, model)


def test_rum_splits_the_forget_set_into_thirds_by_the_originals_confidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 13 samples 5, 4 and 4. The first step needs no forget set, the second is none, the last ascends on its own."""
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    retain_images, labels = whole("retain")
    forget_images, forget_labels = whole("forget")
    model = fresh_copy()
    confidence = model(forget_images).softmax(dim=1)[torch.arange(13), forget_labels]
    least = confidence.argsort()[:4]
    descend(model, F.cross_entropy(model(retain_images), labels), RATE / 2)
    retain_loss = F.cross_entropy(model(retain_images), labels)
    forget_loss = F.cross_entropy(model(forget_images[least]), forget_labels[least])
    descend(model, 0.9 * retain_loss - 0.1 * forget_loss)
    high = {"method": "neggrad-plus", "lr_factor": 1.0, "alpha": 0.9}
    changed = {"low": {"method": "cf", "lr_factor": 0.5}, "mid": None, "high": high}
    system, request = unlearn("rum", tuned=one_batch(1), changed=changed)
    assert column(request.history, "epoch") == [1, 2]
    assert_result(system, model)


@pytest.mark.parametrize(
    "step",
    [{"method": "scrub"}, {"lr_factor": 0.1}, {"method": "cf", "lr_factor": 0.1, "alpha": 1.0}],
)
def test_rum_refuses_an_unknown_method_or_setting(step: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        settings("rum", low=step)
