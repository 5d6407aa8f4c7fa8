"""What the fine-tuning methods do, exactly: their losses, gradients, labels and the weights they may move."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from munkey.data.image_set import JoinedSet
from munkey.models.family import FAMILIES, System
from munkey.models.networks.vit import ViT
from munkey.unlearn.contract import Tuning
from munkey.unlearn.finetune import distillation_loss, endless_batches, mislabel
from munkey.unlearn.methods.l1_sparse import penalized_weights
from tests.unlearn.direct_loops import fresh_copy
from tests.unlearn.world import (
    ARCHITECTURE,
    LINEAR_LAYERS,
    STAGE,
    WHOLE,
    make_request,
    original,
    plain_descent,
    recorded,
    same,
    sizes,
    tuning,
    unlearn,
    weights,
    whole,
    world,
)

HEAD = {"head.weight", "head.bias"}
MATRICES = {f"{layer}.weight" for layer in LINEAR_LAYERS}


def one_step(epochs: int = 1) -> Tuning:
    """All of a set in one batch, uncropped, at rate 1: with plain descent a weight changes by its gradient."""
    return tuning(epochs, batch_size=100, augment=WHOLE, lr=1.0)


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def assert_moved_by(
    before: dict[str, torch.Tensor],
    after: System,
    expected: dict[str, torch.Tensor],
    steps: int = 1,
) -> None:
    """after = before - 1 * expected, for every weight; and some of them did move.

    Rounding errors of the gradients, which differ between CPUs, add up over the steps.
    """
    assert max(gradient.abs().max() for gradient in expected.values()) > 1e-3
    for name, value in weights(after).items():
        torch.testing.assert_close(
            before[name] - value, expected[name], rtol=1e-3, atol=steps * 1e-6
        )


def test_cf_takes_the_gradient_of_the_retain_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    images, labels = whole("retain")
    model = fresh_copy()
    expected = gradients(model, F.cross_entropy(model(images), labels))
    assert_moved_by(
        weights(original("cf")),
        unlearn("cf", tuned=one_step(), changed={"lr_factor": 1.0})[0],
        expected,
    )


@pytest.mark.parametrize("name", ["cf-k", "eu-k"])
def test_cf_k_and_eu_k_move_only_the_head(name: str) -> None:
    before = weights(original(name))
    after = weights(unlearn(name)[0])
    for tensor in before:
        assert torch.equal(before[tensor], after[tensor]) == (tensor not in HEAD)


def test_eu_k_starts_from_a_fresh_head() -> None:
    before = weights(original("eu-k"))
    after = weights(unlearn("eu-k", tuned=tuning(epochs=0))[0])
    first = FAMILIES["vit"].build(ARCHITECTURE, (STAGE / "vit" / "weights").torch_generator())
    assert not torch.equal(after["head.weight"], before["head.weight"])
    assert not torch.equal(after["head.weight"], first.head.weight)
    assert torch.equal(after["head.bias"], torch.zeros(10))
    bound = after["head.weight"].shape[1] ** -0.5  # the ViT's own initializer: uniform within it
    assert after["head.weight"].abs().max() <= bound < 1.2 * after["head.weight"].abs().max()
    for name in before.keys() - HEAD:
        assert torch.equal(before[name], after[name])


def test_cf_k_starts_from_the_trained_head() -> None:
    assert same(weights(original("cf-k")), weights(unlearn("cf-k", tuned=tuning(epochs=0))[0]))


def test_the_l1_penalty_covers_the_matrices_of_the_blocks_and_nothing_else() -> None:
    model = fresh_copy()
    penalized = penalized_weights(model)
    assert penalized.keys() == MATRICES
    for name, weight in penalized.items():
        assert weight is model.get_parameter(name)


@pytest.mark.parametrize(
    ("schedule", "lambdas"), [("constant", (0.03, 0.03, 0.03)), ("linear", (0.03, 0.02, 0.01))]
)
def test_l1_sparse_adds_lambda_times_the_sign(
    monkeypatch: pytest.MonkeyPatch, schedule: str, lambdas: tuple[float, ...]
) -> None:
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    images, labels = whole("retain")
    model = fresh_copy()
    before = weights(original("cf"))
    total = {}
    for lam in lambdas:
        step = gradients(model, F.cross_entropy(model(images), labels))
        for name, parameter in model.named_parameters():
            step[name] += lam * parameter.detach().sign() if name in MATRICES else 0
            parameter.data -= step[name]
            total[name] = total.get(name, 0) + step[name]
    changed = {"lr_factor": 1.0, "lam": 0.03, "schedule": schedule}
    after, *_ = unlearn("l1-sparse", tuned=one_step(epochs=3), changed=changed)
    assert_moved_by(before, after, total, steps=3)


def test_a_linear_l1_schedule_falls_from_epoch_to_epoch_not_within_one() -> None:
    """Several batches an epoch: the first epoch is the same as under a constant lambda, the second is not."""
    for epochs, equal in ((1, True), (2, False)):
        constant, _ = unlearn("l1-sparse", tuned=tuning(epochs), changed={"schedule": "constant"})
        linear, _ = unlearn("l1-sparse", tuned=tuning(epochs), changed={"schedule": "linear"})
        assert same(weights(constant), weights(linear)) == equal


def test_one_neggrad_plus_step_is_the_weighted_difference_of_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    model = fresh_copy()
    retain_images, labels = whole("retain")
    forget_images, forget_labels = whole("forget")
    retain_loss = F.cross_entropy(model(retain_images), labels)
    forget_loss = F.cross_entropy(model(forget_images), forget_labels)
    expected = gradients(model, 0.75 * retain_loss - 0.25 * forget_loss)
    changed = {"lr_factor": 1.0, "alpha": 0.75}
    assert_moved_by(
        weights(original("cf")),
        unlearn("neggrad-plus", tuned=one_step(), changed=changed)[0],
        expected,
    )


def test_the_accuracy_of_neggrad_plus_is_that_on_the_retain_set() -> None:
    """One batch of each set: what is reported is the original's accuracy, from before the only step."""
    images, labels = whole("retain")
    correct = (fresh_copy()(images).argmax(dim=1) == labels).sum().item()
    _, request = unlearn("neggrad-plus", tuned=one_step())
    assert correct > 13  # more than the forget set could give
    assert request.history[0]["accuracy"] == pytest.approx(100 * correct / 60)


def test_neggrad_plus_cycles_the_forget_set_within_an_epoch_of_the_retain_set() -> None:
    data, logs = recorded()
    unlearn("neggrad-plus", tuned=tuning(epochs=2, batch_size=5), data=data)
    assert sizes(logs["retain"]) == [5] * 24
    assert sizes(logs["forget"]) == [5, 5, 3] * 8
    rounds = np.concatenate(logs["forget"]).reshape(8, 13)
    for ids in rounds:
        assert np.array_equal(np.sort(ids), data["forget"].ids)
    assert len(np.unique(rounds, axis=0)) == 8


def test_every_round_of_forget_batches_is_shuffled_and_cropped_again() -> None:
    request = make_request("neggrad-plus")
    marked = replace(request.forget, labels=np.arange(13))
    stream = endless_batches(marked, 5, request)
    rounds = []
    for _ in range(3):
        batches = list(islice(stream, 3))
        images = torch.cat([batch.images for batch in batches])
        marks = torch.cat([batch.labels for batch in batches])
        assert sorted(marks.tolist()) == list(range(13))
        rounds.append((marks, images[marks.argsort()]))
    for (marks, images), (later_marks, later_images) in pairwise(rounds):
        assert not torch.equal(marks, later_marks)
        # On 8 px two of the few possible crops may coincide by chance.
        assert (images == later_images).flatten(1).all(dim=1).sum() < 4


def test_wrong_labels_are_uniform_over_the_other_classes() -> None:
    rows = np.zeros(12000, dtype=int)
    samples = replace(
        world().parts["forget"], rows=rows, ids=rows, labels=np.repeat(np.arange(4), 3000)
    )
    wrong = mislabel(samples, 4, torch.Generator().manual_seed(0)).labels
    assert not (wrong == samples.labels).any()
    for label in range(4):
        counts = np.bincount(wrong[samples.labels == label], minlength=4)
        assert counts[label] == 0
        assert np.all(np.abs(np.delete(counts, label) - 1000) < 100)  # 4 standard deviations


@pytest.mark.parametrize("name", ["amnesiac", "salun"])
def test_forget_labels_are_wrong_and_drawn_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the training is given: both sets; the labels of the forget set wrong, and the same in every epoch."""
    truth = world().parts["forget"]
    sample_sets: list[JoinedSet] = []

    def look(
        system: System, request: object, factor: float, samples: JoinedSet, *_: object, **__: object
    ) -> System:
        sample_sets.append(samples)
        return system

    monkeypatch.setattr("munkey.unlearn.finetune.finetune", look)
    unlearn(name)
    retain, wrong = sample_sets[0].parts
    assert np.array_equal(retain.ids, world().parts["retain"].ids)
    assert np.array_equal(retain.labels, world().parts["retain"].labels)
    assert np.array_equal(wrong.ids, truth.ids)
    _, labels = wrong.batch(torch.arange(len(wrong)), "cpu")
    _, labels_of_another_epoch = wrong.batch(torch.arange(len(wrong)), "cpu")
    assert torch.equal(labels, labels_of_another_epoch)
    assert (labels.numpy() != truth.labels).all()


def test_salun_moves_only_the_most_salient_half() -> None:
    before = weights(original("salun"))
    after = weights(unlearn("salun", changed={"share": 0.5})[0])
    model = fresh_copy()
    forget = world().parts["forget"]
    # 13 samples, batch 16: one batch
    index = torch.randperm(13, generator=make_request("salun").generator)
    images, labels = forget.batch(index, "cpu")
    summed = gradients(model, F.cross_entropy(model((images - 0.5) / 0.5), labels))
    threshold = torch.cat([g.abs().flatten() for g in summed.values()]).median()
    moved = {name: before[name] != after[name] for name in before}
    mask = flatten(moved)
    assert 0.45 * len(mask) < mask.sum() <= round(0.5 * len(mask))
    for name in before:
        saliency = summed[name].abs()
        assert not moved[name][saliency < threshold].any()
        assert moved[name][saliency > 1.01 * threshold].all()


def flatten(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


def test_salun_holds_the_other_weights_at_every_pass() -> None:
    """Not only at the end: a pass with weights that must not move would give the others another gradient."""
    before = weights(original("salun"))
    passes = []

    def note(module: torch.nn.Module, _: object) -> None:
        if module.training and isinstance(module, ViT):
            passes.append(flatten(module.state_dict()) != flatten(before))

    hook = torch.nn.modules.module.register_module_forward_pre_hook(note)
    try:
        after = weights(unlearn("salun", tuned=tuning(epochs=3), changed={"share": 0.1})[0])
    finally:
        hook.remove()
    assert len(passes) == 3 * 5  # 73 samples in batches of 16
    assert not passes[0].any()
    at_any_time = torch.stack(passes).any(dim=0)
    assert 0 < at_any_time.sum() <= round(0.1 * len(at_any_time))
    assert torch.equal(flatten(after)[~at_any_time], flatten(before)[~at_any_time])


def test_bad_teacher_follows_a_random_model_on_the_forget_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain_descent(monkeypatch, "munkey.unlearn.finetune")
    bad = FAMILIES["vit"].build(ARCHITECTURE, make_request("bad-teacher").generator)
    model = fresh_copy()
    good = fresh_copy()
    temperature = 2.0
    pairs = [(whole("retain")[0], good), (whole("forget")[0], bad)]
    loss = torch.zeros(())
    for images, teacher in pairs:
        target = (teacher(images) / temperature).softmax(dim=1).detach()
        log_student = (model(images) / temperature).log_softmax(dim=1)
        loss = loss + temperature**2 * (target * (target.log() - log_student)).sum() / 73
    changed = {"lr_factor": 1.0, "temperature": temperature, "retain_share": 1.0}
    after = unlearn("bad-teacher", tuned=one_step(), changed=changed)[0]
    assert_moved_by(weights(original("cf")), after, gradients(model, loss))


def test_bad_teacher_uses_a_share_of_the_retain_set_drawn_once() -> None:
    data, logs = recorded()
    unlearn("bad-teacher", tuned=tuning(epochs=3), data=data, changed={"retain_share": 0.3})
    ids, times = np.unique(np.concatenate(logs["retain"]), return_counts=True)
    assert len(ids) == 18
    assert set(times) == {3}


def test_the_distillation_loss_is_the_textbook_formula() -> None:
    student = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5]])
    teacher = torch.tensor([[0.0, 3.0, 1.0], [0.0, 1.0, 0.5]])
    p = (teacher / 4).softmax(1)
    q = (student / 4).softmax(1)
    expected = 16 * (p * (p / q).log()).sum() / 2
    torch.testing.assert_close(distillation_loss(student, teacher, 4.0), expected)
