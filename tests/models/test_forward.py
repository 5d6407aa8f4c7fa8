"""What families share: a training is its stage's name and nothing else, and batches do not matter to an answer."""

import numpy as np
import pytest
import torch

from munkey.data.image_set import ImageSet
from munkey.models import forward, system
from munkey.models.family import FAMILIES, System
from munkey.models.networks.sisa import SisaArchitecture
from munkey.training.loop import TrainingLoop, cosine_schedule
from tests.conftest import MUNKEY, VIT, global_state, lively
from tests.models.inputs import DATA, STAGE, answered, normalized, recipe, seven_samples, trained

BOTH = pytest.mark.parametrize("family", ["vit", "munkey"])
OTHER_STAGE = STAGE / "other"


def saved(tmp_path, trained_system):
    system.save(tmp_path / "s.safetensors", trained_system)
    return (tmp_path / "s.safetensors").read_bytes()


# Training


@BOTH
def test_a_training_gives_the_same_bytes_under_its_stage_and_others_under_another(
    params, tmp_path, family
):
    first = saved(tmp_path, trained(recipe(params, family), family).system)
    torch.manual_seed(1234)  # the global generator must not matter
    assert saved(tmp_path, trained(recipe(params, family), family).system) == first
    assert saved(tmp_path, trained(recipe(params, family, OTHER_STAGE), family).system) != first


@BOTH
def test_order_and_crops_have_different_generators(params, monkeypatch, family):
    seeds = {"order": set(), "crops": set()}
    shuffled = forward.shuffled_batches
    augment = forward.Augmentation.__call__

    def noted_order(count, size, source):
        seeds["order"].add(source.initial_seed())
        return shuffled(count, size, source)

    def noted_crops(self, images, source):
        seeds["crops"].add(source.initial_seed())
        return augment(self, images, source)

    monkeypatch.setattr(forward, "shuffled_batches", noted_order)
    monkeypatch.setattr(forward.Augmentation, "__call__", noted_crops)
    trained(recipe(params, family), family)
    assert seeds == {"order": {(STAGE / "order").seed()}, "crops": {(STAGE / "crops").seed()}}


@BOTH
def test_training_leaves_the_global_generators_alone(params, family):
    state = global_state()
    trained(recipe(params, family), family)
    assert global_state() == state


def test_weight_decay_reaches_tokens_that_nothing_else_moves(params):
    """With every token dropped there is no gradient, so the tokens shrink by each step's 1 - lr * decay."""
    result = trained(recipe(params, "munkey", p_image=0, p_token=1), "munkey")
    fresh = 0.02 * torch.randn(12, 5, generator=(STAGE / "tokens").torch_generator())
    rate = cosine_schedule(params.train.lr, epochs=2, warmup_epochs=0)
    shrunk = 1.0
    for step in np.arange(6) / 3:  # three batches an epoch
        shrunk *= 1 - rate(step) * params.train.weight_decay
    torch.testing.assert_close(
        result.system.memory.tokens.detach(), shrunk * fresh, rtol=1e-6, atol=0
    )


@BOTH
def test_training_moves_every_parameter(params, family):
    architecture = {"vit": VIT, "munkey": MUNKEY}[family]
    fresh = FAMILIES[family].build(architecture, (STAGE / "weights").torch_generator()).state_dict()
    drops = {"p_image": 0.3, "p_token": 0.3} if family == "munkey" else {}
    result = trained(recipe(params, family, **drops), family)
    assert result.system.architecture == architecture
    for name, value in result.system.model.state_dict().items():
        assert not torch.equal(value, fresh[name])


@BOTH
def test_the_settings_reach_the_optimizer_and_the_number_format(params, monkeypatch, family):
    fits = []
    run = TrainingLoop.run
    monkeypatch.setattr(TrainingLoop, "run", lambda fit: fits.append(fit) or run(fit))
    train = {
        "lr": 0.01,
        "warmup_epochs": 1.0,
        "betas": [0.7, 0.8],
        "weight_decay": 0.3,
        "precision": "bfloat16",
    }
    trained(recipe(params, family, train=train), family)
    group = fits[0].optimizer.param_groups[0]
    assert (group["betas"], group["weight_decay"]) == ((0.7, 0.8), 0.3)
    assert list(map(fits[0].learning_rate, (0.0, 0.5, 1.0))) == [0.0, 0.005, 0.01]
    assert (fits[0].epochs, fits[0].precision.name) == (2, "bfloat16")


@BOTH
def test_a_watcher_is_called_with_the_start_and_every_epoch(params, family):
    heads = {}

    def watch(epoch, system_of_epoch):
        heads[epoch] = system_of_epoch.model.head.weight.detach().clone()

    result = trained(recipe(params, family), family, watch=watch)
    assert list(heads) == [0, 1, 2]
    architecture = {"vit": VIT, "munkey": MUNKEY}[family]
    fresh = FAMILIES[family].build(architecture, (STAGE / "weights").torch_generator())
    assert torch.equal(heads[0], fresh.head.weight)
    assert not torch.equal(heads[1], heads[0])
    assert torch.equal(heads[2], result.system.model.head.weight)


def test_a_vit_learns_two_colors(params):
    noise = np.random.default_rng(0).integers(0, 100, (40, 8, 8, 3), dtype=np.uint8)
    labels = np.arange(40) % 2
    noise[labels == 0, ..., 0] += 150
    noise[labels == 1, ..., 2] += 150
    samples = ImageSet(noise, np.arange(40), np.arange(40), labels)
    result = trained(recipe(params, "vit", train={"epochs": 20, "lr": 0.01}), "vit", samples)
    assert result.history[-1]["loss"] < 0.1 < result.history[0]["loss"]
    assert not result.system.model.training
    assert (answered(result.system, samples).argmax(axis=1) == labels).all()


# Answers


@pytest.mark.parametrize("family", ["vit", "sisa"])
@torch.no_grad()
def test_a_family_without_a_memory_answers_from_the_resized_and_normalized_image(family):
    architecture = {"vit": VIT, "sisa": SisaArchitecture(**vars(VIT), shards=3, slices=2)}[family]
    model = lively(FAMILIES[family].build(architecture, None))
    logits = answered(System(family, architecture, model), seven_samples())
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, model(normalized(seven_samples())), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("passes", "sizes"), [(1, [3, 3, 1]), (2, [1] * 7), (6, [1] * 7)])
def test_blocks_contain_all_samples_in_order_normalized_with_mean_and_deviation(
    monkeypatch, passes, sizes
):
    monkeypatch.setattr(forward, "PASSES", 3)
    blocks = list(forward.iterate_blocks(seven_samples(), DATA, "cpu", passes))
    assert [len(block.images) for block in blocks] == sizes
    positions = [np.arange(7)[block.positions] for block in blocks]
    assert np.concatenate(positions).tolist() == list(range(7))
    torch.testing.assert_close(
        torch.cat([block.images for block in blocks]), normalized(seven_samples())
    )


def test_answers_are_float32_without_a_gradient():
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    blocks = forward.iterate_blocks(seven_samples(), DATA, "cpu")
    logits = forward.predict_blocks(
        blocks, lambda block: block.images.mean(dim=(2, 3)).double() * weight
    )
    assert (logits.shape, logits.dtype) == ((7, 3), np.float32)
