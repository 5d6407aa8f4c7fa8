"""How MUNKEY reads its token, in all its architectures: what a pathway carries, and where gradients go (app. D.1)."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from munkey.core.randomness import Stage
from munkey.memory.exemplars import ExemplarMemory
from munkey.memory.neighbors import Neighbors
from munkey.models.families.munkey import Exemplars, MunkeySettings
from munkey.models.family import FAMILIES, MemberKeys, System
from munkey.models.networks.munkey import NETWORKS, CrossAttention, Nearest, predict_queries
from munkey.models.system import load, save
from munkey.settings import Section
from munkey.unlearn.contract import METHODS, Request
from tests.conftest import MUNKEY, generator, lively, unit_rows
from tests.models.inputs import quiet, recipe

NAMES = list(NETWORKS)
LEARNED = [name for name in NAMES if name != "direct-key"]
M = MUNKEY.token_dim


def shaped(name, **changes):
    return replace(MUNKEY, architecture=name, **changes)


def built(name):
    return lively(FAMILIES["munkey"].build(shaped(name), None))


def inputs(seed=0, batch=6):
    source = Stage("inputs", seed).torch_generator()
    images = torch.randn(batch, 3, MUNKEY.image_size, MUNKEY.image_size, generator=source)
    return images, torch.randn(batch, M, generator=source)


def masks(image, token, batch=6):
    return torch.full((batch,), image), torch.full((batch,), token)


def memory_of_eight():
    """Keys and tokens are all unlike each other."""
    source = Stage("memory").torch_generator()
    keys, tokens = torch.randn(2, 8, M, generator=source)
    return ExemplarMemory(torch.arange(8), keys, tokens)


@pytest.mark.parametrize("cut", ["image", "token"])
@pytest.mark.parametrize("name", NAMES)
def test_the_answer_does_not_depend_on_a_pathway_that_is_cut(name, cut):
    model = built(name)
    images, tokens = inputs(0)
    other_images, other_tokens = inputs(1)
    others = (other_images, tokens) if cut == "image" else (images, other_tokens)
    dropped = masks(cut == "image", cut == "token")
    torch.testing.assert_close(
        model(images, tokens, *dropped), model(*others, *dropped), rtol=0, atol=0
    )
    assert not torch.allclose(model(images, tokens), model(*others), atol=1e-3)


def exemplars(name, p_retrieve):
    """Eight samples; the first four others of each are its neighbors."""
    ids = np.arange(8) * 3
    keys = unit_rows(8, M)
    near = np.stack([np.setdiff1d(ids, [member])[:4] for member in ids])
    settings = MunkeySettings(
        architecture=name, token_dim=M, token_std=0.5, p_drop="fixed", p_image=0.0, p_token=0.0, p_retrieve=p_retrieve,
        neighbors=[2, 4], aggregation="softmax", temperature=0.07, head="none",
    )  # fmt: skip
    members = MemberKeys(keys, Neighbors(near, np.full((8, 4), 0.5, np.float32)))
    return Exemplars(ids, members, settings, Stage("test", name), "cpu")


@pytest.mark.parametrize(("p_retrieve", "learning"), [(0.0, [1, 4, 6]), (1.0, [])])
@pytest.mark.parametrize("name", LEARNED)
def test_gradient_reaches_the_own_token_and_none_that_stands_in_for_another(
    name, p_retrieve, learning
):
    model = built(name)
    images, _ = inputs()
    samples = exemplars(name, p_retrieve)
    samples.forward(model, images[:3], torch.tensor([1, 4, 6])).square().sum().backward()
    assert samples.tokens.grad.abs().sum(dim=1).nonzero()[:, 0].tolist() == learning


def test_direct_keys_tokens_are_its_keys_and_never_learn():
    samples = exemplars("direct-key", p_retrieve=0.0)
    assert torch.equal(samples.tokens, samples.memory.keys)
    assert not samples.tokens.requires_grad
    model = built("direct-key")
    images, _ = inputs()
    samples.forward(model, images[:3], torch.tensor([1, 4, 6])).sum().backward()
    assert samples.tokens.grad is None
    assert model.adapter.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", NAMES)
def test_deletion_leaves_the_weights_bit_identical(name, tmp_path):
    before = System("munkey", shaped(name), built(name), memory_of_eight())
    request = Request(np.array([2, 5]), generator(), "cpu", quiet, needs=frozenset(), data={})
    after = METHODS["munkey"].run(before, request, Section())
    save(tmp_path / "s", after)
    loaded = load(tmp_path / "s", before.architecture)
    assert type(loaded.model) is NETWORKS[name]
    assert loaded.memory.ids.tolist() == [0, 1, 3, 4, 6, 7]
    for original, stored in zip(
        before.model.state_dict().values(), loaded.model.state_dict().values(), strict=True
    ):
        assert original.numpy().tobytes() == stored.numpy().tobytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fusion", ["ensemble", "softmax", "rank"])
def test_a_query_without_neighbors_is_answered_with_the_null_token(name, fusion, inference):
    """The second query of three; and all of them in an empty memory."""
    model = built(name)
    images, _ = inputs(batch=3)
    memory = memory_of_eight()
    settings = inference(fusion=fusion, k=2)
    rows = torch.tensor([[0, 3], [-1, -1], [4, 1]])
    cosines = torch.tensor([[0.9, 0.8], [0.0, 0.0], [0.7, 0.7]])
    nobody = Nearest(torch.full((3, 2), -1), torch.zeros(3, 2))
    with torch.no_grad():
        alone = model(images, torch.zeros(3, M), *masks(False, True, batch=3))
        logits = predict_queries(model, images, memory, Nearest(rows, cosines), settings)
        torch.testing.assert_close(logits[1], alone[1], rtol=1e-5, atol=1e-5)
        assert not torch.allclose(logits[[0, 2]], alone[[0, 2]], atol=1e-2)
        emptied = predict_queries(model, images, memory.forget(np.arange(8)), nobody, settings)
        torch.testing.assert_close(emptied, alone, rtol=1e-5, atol=1e-5)


def test_every_block_reads_the_same_deep_prompt():
    model = built("deep-prompt")
    images, tokens = inputs()
    prompts = []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda _, inputs: prompts.append(inputs[0][:, -1]))
    model(images, tokens)
    assert len(prompts) == len(model.blocks)
    for prompt in prompts:
        torch.testing.assert_close(prompt, model.adapter(tokens), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("depth", "places"), [(12, ["0", "6", "11"]), (3, ["0", "1", "2"]), (2, ["0", "1"]), (1, ["0"])]
)
def test_cross_attention_stands_in_the_first_middle_and_last_block(depth, places):
    network = FAMILIES["munkey"].build(shaped("cross-attention", depth=depth), None)
    assert list(network.cross) == places


def test_cross_attention_equals_attention_written_out():
    layer = lively(CrossAttention(8, 2))
    x = torch.randn(3, 4, 8, generator=generator(1))
    exemplar = torch.randn(3, 2, 8, generator=generator(2))
    q = layer.q(layer.norm(x))
    k, v = layer.kv(exemplar).split(8, dim=2)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        weights = (q[..., part] @ k[..., part].mT / 2).softmax(-1)
        heads.append(weights @ v[..., part])
    torch.testing.assert_close(
        layer(x, exemplar), layer.proj(torch.cat(heads, -1)), rtol=1e-4, atol=1e-5
    )


def test_the_length_of_a_token_is_that_of_a_key_or_is_read_from_the_parameters(params):
    def length(name, key_dim=None):
        recipe_of_munkey = recipe(params, "munkey", architecture=name, token_dim=128)
        return FAMILIES["munkey"].make_architecture(recipe_of_munkey, 3, key_dim).token_dim

    assert length("direct-key", 1280) == 1280
    assert length("direct-key") is None  # unknown before keys are read
    assert length("deep-prompt", 1280) == length("deep-prompt") == 128


@pytest.mark.parametrize("name", LEARNED)
def test_computing_only_the_class_token_in_the_last_block_changes_nothing(name):
    """Against the slow way, in which every token goes through every block to its end."""
    model = built(name)
    images, tokens = inputs(batch=3)
    patches, exemplar = model.drop_pathways(images, tokens, None, None)
    sequence = model.embed_positions(patches)
    if name == "input-level":
        sequence = torch.cat([sequence, exemplar], dim=1)
    for place, block in enumerate(model.blocks):
        if name == "deep-prompt":
            sequence = torch.cat([sequence, exemplar], dim=1)
        sequence = sequence + block.attn(block.norm1(sequence))
        if name == "cross-attention" and str(place) in model.cross:
            sequence = sequence + model.cross[str(place)](sequence, exemplar)
        sequence = sequence + block.mlp(block.norm2(sequence))
        if name == "deep-prompt":
            sequence = sequence[:, :-1]
    torch.testing.assert_close(
        model(images, tokens), model.forward_head(sequence), rtol=1e-5, atol=1e-5
    )
