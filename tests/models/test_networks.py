"""The ViT is timm's; MUNKEY reads one exemplar token more, without a position, and each pathway can be cut."""

from dataclasses import replace

import pytest
import torch
from timm.models import VisionTransformer
from torch.nn import functional as F

from munkey.models.family import FAMILIES
from munkey.models.networks.munkey import MunkeyArchitecture
from munkey.models.networks.vit import ViTArchitecture, attend
from tests.conftest import MUNKEY, VIT, generator, global_state
from tests.models.inputs import recipe

TINY16 = ViTArchitecture(
    classes=10, image_size=224, patch_size=16, width=192, depth=12, heads=3, mlp_ratio=4.0
)
BOTH = pytest.mark.parametrize(("family", "architecture"), [("vit", VIT), ("munkey", MUNKEY)])


def build(family, architecture, source=None):
    return FAMILIES[family].build(architecture, source)


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def images(batch, size=VIT.image_size):
    return torch.randn(batch, 3, size, size, generator=generator(7))


def tokens(batch, seed=8):
    return torch.randn(batch, MUNKEY.token_dim, generator=generator(seed))


@pytest.mark.parametrize("architecture", [TINY16, VIT], ids=["tiny16", "small"])
def test_our_vit_equals_timms_with_the_same_weights(architecture):
    ours = build("vit", architecture, generator()).eval()
    theirs = VisionTransformer(
        img_size=architecture.image_size,
        patch_size=architecture.patch_size,
        embed_dim=architecture.width,
        depth=architecture.depth,
        num_heads=architecture.heads,
        mlp_ratio=architecture.mlp_ratio,
        num_classes=architecture.classes,
    ).eval()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    batch = images(2, architecture.image_size)
    with torch.no_grad():
        torch.testing.assert_close(ours(batch), theirs(batch), atol=1e-5, rtol=0)


@pytest.mark.parametrize("queries", [1, 5])
def test_attention_written_out_equals_torchs(queries):
    q, k, v = torch.randn(
        3, 2, 3, 5, 8, generator=generator(), dtype=torch.float64
    ).requires_grad_()
    ours = attend(q[:, :, :queries], k, v)
    theirs = F.scaled_dot_product_attention(q[:, :, :queries], k, v)
    torch.testing.assert_close(ours, theirs)
    our_gradients = torch.autograd.grad(ours.square().sum(), (q, k, v))
    their_gradients = torch.autograd.grad(theirs.square().sum(), (q, k, v))
    torch.testing.assert_close(our_gradients, their_gradients)


def test_parameter_counts_are_those_of_vit_tiny():
    architecture = replace(TINY16, classes=1000)
    vit = build("vit", architecture)
    munkey = build(
        "munkey",
        MunkeyArchitecture(**vars(architecture), architecture="input-level", token_dim=128),
    )
    assert count(vit) == 5_717_416  # timm's vit_tiny_patch16_224
    # adapter, null image, null token
    assert count(munkey) - count(vit) == (128 * 192 + 192) + 192 + 192


def test_a_pathway_is_dropped_for_the_marked_samples_only(munkey):
    image_dropped = torch.tensor([True, False, False])
    token_dropped = torch.tensor([False, False, True])
    with torch.no_grad():
        mixed = munkey(images(3), tokens(3), image_dropped, token_dropped)
        for row in range(3):
            alone = munkey(
                images(3)[[row]], tokens(3)[[row]], image_dropped[[row]], token_dropped[[row]]
            )
            torch.testing.assert_close(mixed[[row]], alone)


def test_the_null_image_stands_for_every_patch_before_its_position_is_added(munkey):
    with torch.no_grad():
        patches, exemplar = munkey.drop_pathways(images(1), tokens(1), torch.tensor([True]), None)
        assert torch.equal(patches, munkey.null_image.expand(1, 4, -1))
        logits = munkey(images(1), tokens(1), image_dropped=torch.tensor([True]))
        assert torch.equal(logits, munkey.classify(patches, exemplar))


def test_the_null_token_stands_for_the_adapted_token(munkey):
    dropped = munkey.drop_pathways(images(1), tokens(1), None, torch.tensor([True]))
    assert torch.equal(dropped.exemplar[0, 0], munkey.null_token)
    undropped = munkey.drop_pathways(images(1), tokens(1), None, torch.tensor([False]))
    assert torch.equal(undropped.exemplar[0], munkey.adapter(tokens(1)))


def test_patches_have_a_position_and_exemplar_tokens_have_none(munkey):
    """Attention alone sees a set: without positions an order cannot matter, with them it does."""
    with torch.no_grad():
        patches = munkey.patch_embed(images(2))
        extra = munkey.adapter(torch.stack([tokens(2, 1), tokens(2, 2)], dim=1))
        logits = munkey.classify(patches, extra)
        torch.testing.assert_close(munkey.classify(patches, extra.flip(1)), logits)
        assert not torch.allclose(munkey.classify(patches.flip(1), extra), logits, atol=1e-2)


def test_the_sequence_is_cls_then_patches_then_the_exemplar_token(munkey):
    with torch.no_grad():
        patches, exemplar = munkey.drop_pathways(images(2), tokens(2), None, None)
        cls = munkey.cls_token.expand(2, -1, -1)
        with_positions = torch.cat([cls, patches], dim=1) + munkey.pos_embed
        sequence = torch.cat([with_positions, exemplar], dim=1)
        for block in munkey.blocks:
            sequence = block(sequence)
        torch.testing.assert_close(
            munkey(images(2), tokens(2)), munkey.head(munkey.norm(sequence))[:, 0]
        )


@BOTH
def test_initialize_sets_every_weight_of_a_model(family, architecture):
    model = build(family, architecture)
    assert not list(model.buffers()), "initialize would leave buffers unset"
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
        model.initialize(generator())
    for parameter in model.parameters():
        assert parameter.isfinite().all()


@BOTH
def test_weights_depend_on_their_generator_alone(family, architecture):
    state = global_state()
    first = build(family, architecture, generator(1)).state_dict()
    again = build(family, architecture, generator(1)).state_dict()
    other = build(family, architecture, generator(2)).state_dict()
    assert global_state() == state
    for name, value in first.items():
        assert torch.equal(value, again[name])
        is_constant = "norm" in name or not value.any()
        assert torch.equal(value, other[name]) == is_constant


def test_fresh_linear_weights_are_uniform_within_the_root_of_the_fan_in():
    model = build("vit", TINY16, generator())
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module is not model.head:
            bound = module.in_features**-0.5
            assert module.weight.abs().max().item() <= bound
            assert module.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
            assert not module.bias.any()


def test_fresh_null_embeddings_are_small():
    model = build("munkey", replace(MUNKEY, width=512, heads=1), generator())
    for null in (model.null_image, model.null_token):
        assert null.std().item() == pytest.approx(0.02, rel=0.2)


@BOTH
def test_an_architecture_is_read_from_the_parameters(params, family, architecture):
    assert FAMILIES[family].make_architecture(recipe(params, family), 3) == architecture
