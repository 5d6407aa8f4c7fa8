"""Torch's count of a network's operations, held against values by hand."""

import pytest
import torch
from torch import nn

from munkey.experiment.cost.flops import NetworkCost, count_operations
from munkey.experiment.cost.machines import build_benchmarked_networks
from munkey.models.family import FAMILIES
from tests.conftest import MUNKEY


def on_meta(network: nn.Module) -> nn.Module:
    return network.to("meta")


def test_a_linear_layer_costs_two_operations_for_each_weight_and_three_passes_with_its_gradients():
    """12 pixels to 5 and to 3 numbers: 60 + 15 multiply-adds forward; backward all weights, and the middle's input."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 5, bias=False), nn.Linear(5, 3))
    weights = 60 + 15
    cost = count_operations(on_meta(network), image_size=2)
    assert cost == NetworkCost(weights + 3, 2 * weights, 2 * (weights + weights + 15))


def test_a_vit_costs_what_its_matrix_products_do():
    """Patches, attention and MLP of 12 blocks (the last for [CLS] alone), and the head; by hand."""
    d = 192
    hidden = 768
    depth = 12
    n = 197
    full_block = n * (3 * d * d + d * d + 2 * d * hidden) + 2 * n * n * d
    last_block = n * 3 * d * d + d * d + 2 * d * hidden + 2 * n * d
    multiply_adds = 196 * 768 * d + (depth - 1) * full_block + last_block + 10 * d
    assert build_benchmarked_networks()["ViT-T/16 at 224 px"].forward == 2 * multiply_adds


def test_munkey_reads_a_token_beside_the_image():
    fields = dict(vars(MUNKEY))
    del fields["head"]
    family = FAMILIES["munkey"]
    network = family.build(family.restore_architecture(fields), None)
    cost = count_operations(on_meta(network), MUNKEY.image_size, MUNKEY.token_dim)
    vit = FAMILIES["vit"]
    names = ("classes", "image_size", "patch_size", "width", "depth", "heads", "mlp_ratio")
    plain = vit.build(vit.restore_architecture({name: fields[name] for name in names}), None)
    without_token = count_operations(on_meta(plain), MUNKEY.image_size)
    adapter = (MUNKEY.token_dim + 1) * MUNKEY.width
    assert cost.weights == without_token.weights + adapter + 2 * MUNKEY.width  # and the two nulls
    assert without_token.forward < cost.forward < 2 * without_token.forward


def test_a_batch_norm_is_no_obstacle():
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    cost = count_operations(on_meta(network), image_size=2)
    assert cost.forward == 2 * (4 * 12 + 32)
    for parameter in network.parameters():
        assert parameter.device == torch.device("meta")


@pytest.mark.parametrize("title", ["ViT-T/16 at 224 px", "small ViT"])
def test_a_step_costs_about_three_forward_passes(title):
    cost = build_benchmarked_networks()[title]
    assert 2.7 * cost.forward < cost.step < 3 * cost.forward  # pixels get no gradient
