"""The arithmetic of a ViT agrees with torch's own count, and its bytes with what a CPU really takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from munkey.experiment.cost.flops import Network, answering_bytes, measured
from munkey.experiment.cost.machines import BENCHED
from munkey.models.family import FAMILIES
from munkey.settings import ModelSettings
from tests.conftest import MUNKEY, VIT

SETTINGS = ModelSettings(
    **{name: getattr(VIT, name) for name in ("patch_size", "width", "depth", "heads", "mlp_ratio")}
)
PEAKS = """
import json
from benchmarks.peaks import peaks
print(json.dumps(peaks()))
"""


def built(network: Network) -> torch.nn.Module:
    """The family's own network, on the meta device: shapes without data."""
    fields = {**network.model.model_dump(), "image_size": network.image_size, "classes": network.classes}
    name = "munkey" if network.token_dim else "vit"
    fields |= {"architecture": "input-level", "token_dim": network.token_dim} if network.token_dim else {}
    return FAMILIES[name].build(FAMILIES[name].stored_architecture(fields), None).to("meta")


NETWORKS = {
    "ViT": Network(SETTINGS, VIT.image_size, VIT.classes),
    "MUNKEY": Network(SETTINGS, MUNKEY.image_size, MUNKEY.classes, extra=1, token_dim=5),
    **BENCHED,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_operations_and_weights_are_those_that_torch_counts(name):
    network = NETWORKS[name]
    model, images = built(network), torch.ones(2, 3, network.image_size, network.image_size, device="meta")
    inputs = [images, torch.ones(2, network.token_dim, device="meta")] if network.token_dim else [images]
    assert network.weights == sum(parameter.numel() for parameter in model.parameters())
    with FlopCounterMode(display=False) as forward:
        logits = model(*inputs)
    assert 2 * network.forward == forward.get_total_flops()
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    adapter = 2 * network.token_dim * network.model.width  # whose input gets no gradient here, as an exemplar's would
    assert 2 * (network.step - network.forward - adapter) == backward.get_total_flops()


@pytest.mark.parametrize("name", ["ViT", *BENCHED])
def test_a_network_that_is_measured_costs_what_the_arithmetic_says(name):
    """What has no arithmetic of ours runs once on the meta device; here a ViT does, whose arithmetic is known."""
    network = NETWORKS[name]
    found = measured(built(network), network.image_size)
    assert (found.weights, found.forward, found.step) == (network.weights, network.forward, network.step)
    assert 0.5 < found.kept_bytes / network.kept_bytes < 2


def test_answering_an_image_takes_what_its_attention_or_its_mlp_takes_whichever_is_more():
    """4 patches and [CLS], 5 tokens, in float32; and 3 x 8 x 8 pixels, twice."""
    for heads, ratio, numbers in ((1, 1.0, 8 * 4 + 1 * 5), (4, 1.0, 5 * 4 + 2 * 4 * 5), (1, 16.0, 2 * 4 + 2 * 64)):
        model = ModelSettings(patch_size=4, width=4, depth=2, heads=heads, mlp_ratio=ratio)
        assert Network(model, 8, 10).answer_bytes == 4 * (5 * numbers + 2 * 3 * 64)


def test_answering_holds_the_weights_whatever_it_answers():
    """Ten classes more are ten more rows of the head, with a bias each, of 4 bytes a number."""
    few, many = (Network(SETTINGS, VIT.image_size, classes) for classes in (10, 20))
    assert answering_bytes(many, 8) - answering_bytes(few, 8) == 4 * 10 * (SETTINGS.width + 1)


@pytest.mark.slow
def test_bytes_are_within_a_fifth_of_the_peaks_that_are_measured():
    """In a process of its own, where every large tensor is given back as soon as it is free."""
    project = Path(__file__).parents[3]
    process = subprocess.run([sys.executable, "-c", PEAKS], cwd=project, capture_output=True, text=True, check=True)
    for what, (estimated, taken) in json.loads(process.stdout.splitlines()[-1]).items():
        assert estimated == pytest.approx(taken, rel=0.2), what
