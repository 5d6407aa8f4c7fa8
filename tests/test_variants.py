"""How MUNKEY reads its token, in all its architectures: what a pathway carries, and where gradients go (app. D.1)."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from munkey import models
from munkey.evaluate import munkey_logits
from munkey.memory import ExemplarMemory
from munkey.randomness import torch_generator
from munkey.system import System, load, save
from munkey.train import Exemplars
from munkey.unlearn import METHODS
from tests.conftest import MUNKEY, VIT, generator, lively

NAMES = list(models.MUNKEYS)
LEARNED = [name for name in NAMES if name != "direct-key"]
M = 5


def built(name):
    """A model with weights large enough that everything matters."""
    model = models.build("munkey", VIT | {"architecture": name, "token_dim": M}, torch_generator(name)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch_generator(name, "more")))
    return model


def inputs(seed=0, batch=6):
    generator = torch_generator("inputs", seed)
    images = torch.randn(batch, 3, VIT["image_size"], VIT["image_size"], generator=generator)
    return images, torch.randn(batch, M, generator=generator)


def masks(image, token, batch=6):
    return torch.full((batch,), image), torch.full((batch,), token)


@pytest.mark.parametrize("name", NAMES)
def test_with_the_token_cut_the_answer_does_not_depend_on_the_memory(name):
    model, (images, tokens), (_, others) = built(name), inputs(0), inputs(1)
    cut = masks(False, True)
    torch.testing.assert_close(model(images, tokens, *cut), model(images, others, *cut), rtol=0, atol=0)
    assert not torch.allclose(model(images, tokens), model(images, others), atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_with_the_image_cut_the_answer_does_not_depend_on_the_image(name):
    model, (images, tokens), (others, _) = built(name), inputs(0), inputs(1)
    cut = masks(True, False)
    torch.testing.assert_close(model(images, tokens, *cut), model(others, tokens, *cut), rtol=0, atol=0)
    assert not torch.allclose(model(images, tokens), model(others, tokens), atol=1e-3)


def exemplars(name, p_retrieve):
    ids, keys = np.arange(8) * 3, np.random.default_rng(0).normal(size=(8, M)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    near = np.array([[i for i in ids if i != own][:4] for own in ids])
    settings = SimpleNamespace(
        architecture=name, token_dim=M, token_std=0.5, p_image=0.0, p_token=0.0, p_retrieve=p_retrieve,
        neighbors=[2, 4], temperature=0.07,
    )  # fmt: skip
    cosines = np.full((8, 4), 0.5, np.float32)
    return Exemplars(ids, settings, keys, (near, cosines), ("test", name), "cpu")


@pytest.mark.parametrize("name", LEARNED)
def test_gradient_reaches_the_own_token_and_no_neighbours(name):
    model, (images, _), held = built(name), inputs(), exemplars(name, p_retrieve=0.0)
    held.forward(model, images[:3], torch.tensor([1, 4, 6])).square().sum().backward()
    reached = held.tokens.grad.abs().sum(dim=1) > 0
    assert reached.tolist() == [False, True, False, False, True, False, True, False]


@pytest.mark.parametrize("name", LEARNED)
def test_no_gradient_reaches_a_token_that_stands_in_for_another(name):
    model, (images, _), held = built(name), inputs(), exemplars(name, p_retrieve=1.0)
    held.forward(model, images[:3], torch.tensor([1, 4, 6])).square().sum().backward()
    assert held.tokens.grad is None or held.tokens.grad.abs().sum() == 0


def test_direct_keys_tokens_are_its_keys_and_never_learn():
    held = exemplars("direct-key", p_retrieve=0.0)
    assert torch.equal(held.tokens, held.memory.keys) and not held.tokens.requires_grad
    model, (images, _) = built("direct-key"), inputs()
    held.forward(model, images[:3], torch.tensor([1, 4, 6])).sum().backward()
    assert held.tokens.grad is None and model.adapter.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", NAMES)
def test_deletion_leaves_the_weights_bit_identical(name, tmp_path):
    memory = ExemplarMemory(torch.arange(8), torch.randn(8, M), torch.randn(8, M))
    before = System("munkey", VIT | {"architecture": name, "token_dim": M}, built(name), memory)
    asked = SimpleNamespace(forget_ids=np.array([2, 5]))
    after = METHODS["munkey"].run(before, asked, None)
    save(tmp_path / "s", after)
    loaded = load(tmp_path / "s", before.architecture)
    assert type(loaded.model) is models.MUNKEYS[name] and loaded.memory.ids.tolist() == [0, 1, 3, 4, 6, 7]
    for own, stored in zip(before.model.state_dict().values(), loaded.model.state_dict().values(), strict=True):
        assert own.numpy().tobytes() == stored.numpy().tobytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fusion", ["ensemble", "softmax", "rank"])
def test_every_fusion_answers_as_written_out(name, fusion):
    model, (images, _) = built(name), inputs(batch=2)
    memory = ExemplarMemory(torch.arange(5), torch.randn(5, M), torch.randn(5, M, generator=torch_generator("m")))
    rows, cosines = torch.tensor([[0, 3], [4, 1]]), torch.tensor([[0.9, 0.8], [0.7, 0.7]])
    settings = SimpleNamespace(fusion=fusion, temperature=0.07, k=2)
    with torch.no_grad():
        got = munkey_logits(model, images, memory, rows, cosines, settings)
        weights = (cosines / 0.07).softmax(1) if fusion != "rank" else torch.tensor([[0.6, 0.4], [0.6, 0.4]])
        tokens = memory.tokens[rows]
        if fusion == "ensemble":
            passes = torch.stack([model(images, tokens[:, k]) for k in range(2)], dim=1)
            expected = (weights[:, :, None] * passes).sum(1)
        else:
            expected = model(images, (weights[:, :, None] * tokens).sum(1))
    torch.testing.assert_close(got, expected)


def test_the_deep_prompt_stands_afresh_before_every_block():
    model, (images, tokens) = built("deep-prompt"), inputs()
    seen = []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda _, given: seen.append(given[0][:, -1]))
    model(images, tokens)
    assert len(seen) == len(model.blocks)
    for prompt in seen:
        torch.testing.assert_close(prompt, model.adapter(tokens), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("depth", "places"), [(12, ["0", "6", "11"]), (3, ["0", "1", "2"]), (2, ["0", "1"]), (1, ["0"])]
)
def test_cross_attention_stands_in_the_first_middle_and_last_block(depth, places):
    model = models.build("munkey", VIT | {"architecture": "cross-attention", "token_dim": M, "depth": depth}, None)
    assert list(model.cross) == places


def test_cross_attention_equals_attention_written_out():
    layer = models.CrossAttention(8, 2)
    x, exemplar = torch.randn(3, 4, 8), torch.randn(3, 2, 8)
    q, (k, v) = layer.q(layer.norm(x)), layer.kv(exemplar).split(8, dim=2)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        weights = (q[..., part] @ k[..., part].mT / 2).softmax(-1)
        heads.append(weights @ v[..., part])
    torch.testing.assert_close(layer(x, exemplar), layer.proj(torch.cat(heads, -1)), rtol=1e-4, atol=1e-5)


def test_the_shape_is_read_from_the_parameters():
    section = SimpleNamespace(architecture="direct-key", token_dim=128)
    settings = SimpleNamespace(
        data=SimpleNamespace(image_size=8), model=SimpleNamespace(patch_size=4, width=8), munkey=section
    )
    assert models.architecture("munkey", settings, 3, key_dim=1280)["token_dim"] == 1280
    assert "token_dim" not in models.architecture("munkey", settings, 3)  # unknown before keys are read
    section.architecture = "deep-prompt"
    assert models.architecture("munkey", settings, 3, key_dim=1280)["token_dim"] == 128


@pytest.mark.parametrize("architecture", ["input-level", "deep-prompt", "cross-attention"])
def test_only_the_class_token_leaving_the_last_block_changes_nothing(architecture):
    """Against the slow way, in which every token goes through every block to its end."""
    model = lively(models.build("munkey", MUNKEY | {"architecture": architecture}, generator()))
    images, tokens = torch.rand(3, 3, 8, 8, generator=generator(1)), torch.randn(3, 5, generator=generator(2))
    patches, exemplar = model.pathways(images, tokens, None, None)
    sequence = model.sequence(patches)
    if architecture == "input-level":
        sequence = torch.cat([sequence, exemplar], dim=1)
    for place, block in enumerate(model.blocks):
        if architecture == "deep-prompt":
            sequence = torch.cat([sequence, exemplar], dim=1)
        sequence = sequence + block.attn(block.norm1(sequence))
        if architecture == "cross-attention" and str(place) in model.cross:
            sequence = sequence + model.cross[str(place)](sequence, exemplar)
        sequence = sequence + block.mlp(block.norm2(sequence))
        if architecture == "deep-prompt":
            sequence = sequence[:, :-1]
    torch.testing.assert_close(model(images, tokens), model.answer(sequence), rtol=1e-5, atol=1e-5)
