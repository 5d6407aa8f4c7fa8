"""Training: who receives gradient, what is dropped how often, and that a run is its stage's name and nothing else."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from munkey import models, system
from munkey.evaluate import predict
from munkey.images import ImageSet, normalise, resize
from munkey.neighbors import NOBODY, nearest, without_self
from munkey.randomness import torch_generator
from munkey.train import Augmentation, Exemplars, adamw, cosine, fit, shuffled, train
from tests.conftest import MUNKEY, VIT, generator, global_state, image_set, unit_rows

STAGE = (0, "toy", "full")


def near(ids, keys, count):
    return without_self(*nearest(keys, ids, keys, ids, count + 1), ids, count)


def settings_of(params, **given):
    return SimpleNamespace(**params.munkey.model_dump() | given)


@pytest.fixture
def exemplars(params):
    """Exemplars of eight samples, four neighbours each; keyword arguments replace the parameters."""
    ids, keys = 10 + 2 * np.arange(8), unit_rows(8, 4)
    return lambda **given: Exemplars(ids, settings_of(params, **given), keys, near(ids, keys, 4), STAGE, "cpu")


def run(params, kind, stage=STAGE, samples=None, **given):
    """Train on a dozen random images; keyword arguments replace MUNKEY's parameters."""
    samples = samples or image_set(12)
    keys, memory = unit_rows(len(samples), 4), None
    if kind == "munkey":
        memory = settings_of(params, **given), keys, near(samples.ids, keys, 4)
    architecture = {"vit": VIT, "munkey": MUNKEY}[kind]
    return train(kind, architecture, samples, memory, params.data, params.train, stage, "cpu", lambda _: None)


def saved(tmp_path, trained):
    system.save(tmp_path / "s.safetensors", trained)
    return (tmp_path / "s.safetensors").read_bytes()


# Exemplar tokens


def gradient_rows(exemplars, munkey, index):
    images = torch.randn(len(index), 3, 8, 8, generator=generator())
    exemplars.forward(munkey, images, torch.tensor(index)).square().sum().backward()
    return exemplars.tokens.grad.abs().sum(dim=1).nonzero()[:, 0].tolist()


def test_gradient_reaches_a_samples_own_token_and_no_other(exemplars, munkey):
    assert gradient_rows(exemplars(p_image=0, p_token=0, p_retrieve=0), munkey, [1, 6]) == [1, 6]


def test_no_token_receives_gradient_where_neighbours_stand_in(exemplars, munkey):
    assert gradient_rows(exemplars(p_image=0, p_token=0, p_retrieve=1), munkey, [1, 6]) == []


def test_no_token_receives_gradient_where_the_token_is_dropped(exemplars, munkey):
    assert gradient_rows(exemplars(p_image=0, p_token=1, p_retrieve=0), munkey, [1, 6]) == []


def test_in_a_mixed_batch_a_token_learns_from_its_own_sample_alone(exemplars):
    """All eight are in the batch, so every stand-in is also some other sample's own token."""
    part, index = exemplars(), torch.arange(8)
    retrieved = index % 2 == 0
    part.training_tokens(index, retrieved, torch.full((8,), 4)).sum().backward()
    assert torch.equal(part.tokens.grad, (~retrieved).float()[:, None].expand(8, 5))


def test_the_stand_in_is_the_similarity_weighted_average_of_the_nearest_others(exemplars):
    part = exemplars(temperature=0.3)
    found = part.training_tokens(torch.tensor([2, 5]), torch.tensor([True, True]), torch.tensor([2, 3]))
    for row, (own, count) in enumerate([(2, 2), (5, 3)]):
        cosines = (part.memory.keys @ part.memory.keys[own]).double()
        cosines[own] = -torch.inf
        top = cosines.argsort(descending=True)[:count]
        weights = (cosines[top] / 0.3).softmax(dim=0).float()
        torch.testing.assert_close(found[row], weights @ part.tokens.detach()[top])


def test_the_own_token_is_passed_on_as_it_is(exemplars):
    part = exemplars()
    found = part.training_tokens(torch.tensor([2, 5]), torch.tensor([False, False]), torch.tensor([4, 4]))
    assert torch.equal(found, part.tokens[[2, 5]])


def test_in_a_memory_of_two_the_other_one_stands_in_alone(params):
    ids, keys = np.array([3, 4]), unit_rows(2, 4)
    part = Exemplars(ids, settings_of(params), keys, near(ids, keys, 4), STAGE, "cpu")
    assert part.neighbours.tolist() == [[1, NOBODY, NOBODY, NOBODY], [0, NOBODY, NOBODY, NOBODY]]
    found = part.training_tokens(torch.tensor([0]), torch.tensor([True]), torch.tensor([4]))
    torch.testing.assert_close(found[0], part.tokens.detach()[1])


@pytest.mark.parametrize(("p_image", "p_token", "p_retrieve"), [(0.3, 0.1, 0.2), (0.1, 0.9, 0.5), (0, 0, 0), (0, 1, 1)])
def test_pathways_are_dropped_as_often_as_asked_for_and_never_both(exemplars, p_image, p_token, p_retrieve):
    count = 40_000
    image, token, retrieved, _ = exemplars(p_image=p_image, p_token=p_token, p_retrieve=p_retrieve).draw(count)
    assert not (image & token).any()
    for drawn, p in ((image, p_image), (token, p_token), (retrieved, p_retrieve)):
        assert drawn.float().mean().item() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / count) + 1e-9)


def test_retrieval_is_drawn_independently_of_dropping(exemplars):
    image, token, retrieved, _ = exemplars(p_image=0.3, p_token=0.3, p_retrieve=0.5).draw(40_000)
    for dropped in (image, token, ~(image | token)):
        assert retrieved[dropped].float().mean().item() == pytest.approx(0.5, abs=0.02)


def test_the_number_of_neighbours_is_uniform_over_its_whole_range(exemplars):
    *_, count = exemplars(neighbors=[2, 4]).draw(30_000)
    shares = torch.bincount(count, minlength=5) / len(count)
    np.testing.assert_allclose(shares, [0, 0, 1 / 3, 1 / 3, 1 / 3], atol=0.015)


def test_fresh_tokens_have_the_spread_asked_for(params):
    ids = np.arange(2000)
    neighbours = np.full((2000, 1), NOBODY), np.zeros((2000, 1), np.float32)
    part = Exemplars(ids, settings_of(params, token_std=0.02), unit_rows(2000, 4), neighbours, STAGE, "cpu")
    assert part.tokens.std().item() == pytest.approx(0.02, rel=0.03)
    assert part.tokens.mean().item() == pytest.approx(0, abs=0.001)


# The loop


def test_the_rate_follows_a_cosine_to_zero():
    rate = cosine(lr=2.0, epochs=10, warmup_epochs=0)
    np.testing.assert_allclose([rate(e) for e in (0, 2.5, 5, 10)], [2, 1 + math.sqrt(0.5), 1, 0], atol=1e-12)


def test_the_rate_rises_linearly_before_the_cosine():
    rate = cosine(lr=2.0, epochs=10, warmup_epochs=2)
    np.testing.assert_allclose([rate(e) for e in (0, 0.5, 1, 2, 6, 10)], [0, 0.5, 1, 2, 1, 0], atol=1e-12)


def test_every_sample_is_in_one_batch_and_the_last_batch_is_kept():
    batches = list(shuffled(10, 4, generator()))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(torch.cat(batches).tolist()) == list(range(10))


def test_each_epoch_has_an_order_of_its_own():
    source = generator()
    assert not torch.equal(torch.cat(list(shuffled(50, 8, source))), torch.cat(list(shuffled(50, 8, source))))


def fitted(losses, epochs=1, rate=lambda _: 0.0):
    """Fit a number that does not matter; `losses` of an epoch's batches, each of two samples of which one is right."""
    weight, rates = torch.nn.Parameter(torch.ones(1)), []
    optimizer = adamw([weight], [0.9, 0.99], 0.0)

    def step(batch):
        rates.append(optimizer.param_groups[0]["lr"])
        return (0 * weight).sum() + batch[0], torch.tensor(1)

    history = fit(epochs, lambda _: [(loss, None) for loss in losses], step, optimizer, rate, lambda _: None)
    return history, rates


def test_history_tells_the_mean_loss_and_the_share_that_is_right():
    history, _ = fitted([1.0, 2.0, 6.0], epochs=2, rate=lambda done: 1 - done / 2)
    assert [(e["epoch"], e["loss"], e["accuracy"], e["lr"]) for e in history] == [(1, 3.0, 50, 1.0), (2, 3.0, 50, 0.5)]


def test_the_rate_is_set_anew_at_every_step():
    _, rates = fitted([1.0, 1.0], epochs=2, rate=lambda done: done)
    assert rates == [0, 0.5, 1, 1.5]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_training(loss):
    with pytest.raises(FloatingPointError, match=f"epoch 1 is {loss}: lower train.lr"):
        fitted([1.0, loss, 1.0])


def test_frozen_parameters_stay_out_of_the_optimizer():
    frozen, free = torch.nn.Parameter(torch.ones(1), requires_grad=False), torch.nn.Parameter(torch.ones(1))
    assert adamw([frozen, free], [0.9, 0.99], 0.05).param_groups[0]["params"] == [free]


def test_without_cropping_augmentation_is_what_evaluation_does():
    images = torch.rand(3, 3, 12, 12, generator=generator())
    augment = Augmentation(8, [1.0, 1.0], [1.0, 1.0], 0.4, 0.2)
    torch.testing.assert_close(augment(images, generator()), normalise(resize(images, 8), 0.4, 0.2))


# Whole runs


@pytest.mark.parametrize("kind", ["vit", "munkey"])
def test_a_run_is_repeated_byte_by_byte_under_its_stage_and_differs_under_another(params, tmp_path, kind):
    first = saved(tmp_path, run(params, kind)[0])
    torch.manual_seed(1234)  # the global generator must not matter
    assert saved(tmp_path, run(params, kind)[0]) == first
    assert saved(tmp_path, run(params, kind, stage=(1, "toy", "full"))[0]) != first


def with_training(params, **given):
    return params.model_copy(update={"train": params.train.model_copy(update=given)})


def test_fresh_weights_and_tokens_differ_between_stages(params):
    still = with_training(params, lr=1e-30)
    (one, _), (other, _) = run(still, "munkey"), run(still, "munkey", stage=(1, "toy", "full"))
    assert not torch.allclose(one.memory.tokens, other.memory.tokens)
    assert not torch.allclose(one.model.blocks[0].mlp.fc1.weight, other.model.blocks[0].mlp.fc1.weight)


def test_dropped_pathways_differ_between_stages_and_repeat_within_one(params):
    ids, keys = np.arange(8), unit_rows(8, 4)

    def drawn(stage):
        return torch.stack(Exemplars(ids, params.munkey, keys, near(ids, keys, 4), stage, "cpu").draw(100)).tolist()

    assert drawn(STAGE) == drawn(STAGE) != drawn((1, "toy", "full"))


@pytest.mark.parametrize("varied", ["order", "crops"])
def test_order_and_crops_differ_between_stages(params, monkeypatch, varied):
    """With the other one and the fresh weights held still, only this one is left to make a difference."""
    fresh = models.build("vit", VIT, generator())
    monkeypatch.setattr(models, "build", lambda *_: copy.deepcopy(fresh))
    if varied == "order":
        params = with_training(params, crop_scale=[1.0, 1.0], crop_ratio=[1.0, 1.0])
    else:
        monkeypatch.setattr("munkey.train.shuffled", lambda count, size, _: torch.arange(count).split(size))
    runs = (run(params, "vit", stage=(seed, "toy", "full"))[0].model for seed in (0, 1))
    one, other = (model.blocks[0].mlp.fc1.weight for model in runs)
    assert not torch.allclose(one, other, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["vit", "munkey"])
def test_training_leaves_the_global_generators_alone(params, kind):
    state = global_state()
    run(params, kind)
    assert global_state() == state


def test_training_leaves_the_given_samples_and_keys_alone(params):
    samples = image_set(12)
    before = samples.images.copy()
    trained, _ = run(params, "munkey", samples=samples)
    np.testing.assert_array_equal(samples.images, before)
    np.testing.assert_array_equal(trained.memory.keys, unit_rows(12, 4))


def test_weight_decay_reaches_tokens_that_nothing_else_moves(params):
    """With every token dropped there is no gradient, so the tokens shrink by each step's 1 - lr * decay."""
    trained, _ = run(params, "munkey", p_image=0, p_token=1)
    fresh = 0.02 * torch.randn(12, 5, generator=torch_generator(*STAGE, "tokens"))
    rate = cosine(params.train.lr, epochs=2, warmup_epochs=0)
    steps = [epoch + position / 3 for epoch in range(2) for position in range(3)]
    shrunk = math.prod(1 - rate(step) * params.train.weight_decay for step in steps)
    torch.testing.assert_close(trained.memory.tokens.detach(), shrunk * fresh, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["vit", "munkey"])
def test_training_moves_every_parameter(params, kind):
    architecture = {"vit": VIT, "munkey": MUNKEY}[kind]
    fresh = models.build(kind, architecture, torch_generator(*STAGE, "weights")).state_dict()
    trained, _ = run(params, kind, p_image=0.3, p_token=0.3)
    assert [name for name, value in trained.model.state_dict().items() if torch.equal(value, fresh[name])] == []


def test_history_has_an_entry_per_epoch(params):
    _, history = run(params, "vit")
    assert [entry["epoch"] for entry in history] == [1, 2]
    assert [entry["lr"] for entry in history] == [params.train.lr, params.train.lr / 2]


def test_two_colours_are_learned(params):
    noise = np.random.default_rng(0).integers(0, 100, (40, 8, 8, 3), dtype=np.uint8)
    labels = np.arange(40) % 2
    noise[labels == 0, ..., 0] += 150
    noise[labels == 1, ..., 2] += 150
    samples = ImageSet(noise, np.arange(40), np.arange(40), labels)
    trained, history = run(with_training(params, epochs=20, lr=0.01), "vit", samples=samples)
    assert history[-1]["loss"] < 0.1 < history[0]["loss"]
    assert (predict(trained, samples, params.data, "cpu").argmax(axis=1) == labels).all()
