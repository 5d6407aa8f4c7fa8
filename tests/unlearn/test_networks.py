"""Every post-hoc method on a ResNet-18, whose batch norms have state beside their weights."""

from collections.abc import Iterator
from functools import cache

import pytest
import torch

from munkey.core.randomness import Stage
from munkey.data.image_set import image_set
from munkey.models.family import FAMILIES, Recipe, System, Training
from munkey.unlearn.contract import METHODS
from tests.training.inputs import DATA, RESNET18
from tests.unlearn.world import TRAIN, quiet, request, same, settings, tensors, weights, world

RECIPE = Recipe(
    DATA, None, TRAIN.model_copy(update={"epochs": 5}), RESNET18, Stage("tiny", "resnet18")
)
POST_HOC = [name for name in METHODS if METHODS[name].original.is_network]
# in eval mode from begin to end: batch statistics stay (JiT's original: train)
KEPT = {"ssd", "lfssd", "assd", "jit"}


HAS_OLDER_CPU = torch.backends.cpu.get_cpu_capability() == "AVX2"


@pytest.fixture(autouse=True)
def without_onednn_on_older_cpus() -> Iterator[None]:
    """Without AVX-512, torch 2.15 corrupts its memory in a backward pass here (docs/backbones.md)."""
    with torch.backends.mkldnn.flags(enabled=not HAS_OLDER_CPU):
        yield


@cache
def original() -> System:
    samples = image_set(world().dataset, world().dataset.get_ids("train"))
    return FAMILIES["resnet18"].train(Training(samples, 10, RECIPE, "cpu", quiet)).system


@pytest.mark.parametrize(
    "name", [name for name in POST_HOC if METHODS[name].for_network("resnet18").is_defined]
)
def test_it_changes_a_copy_of_a_resnet_18_the_same_way_each_time(name: str) -> None:
    start = weights(original())
    chosen = settings(name, **({"noise_steps": 4, "copies": 2} if name == "unsir" else {}))
    first, again = (
        METHODS[name].run(original(), request(name, recipe=RECIPE), chosen) for _ in range(2)
    )
    assert same(start, weights(original())) and same(tensors(first), tensors(again))
    assert first.family == "resnet18" and first.model is not None and not first.model.training
    found = tensors(first)
    statistics = "body.layer4.1.bn2.running_mean"
    assert all(bool(value.isfinite().all()) for value in found.values())
    # The original that such a CPU trains is one that LoTUS need not change.
    assert not same(found, start) or (HAS_OLDER_CPU and name == "lotus")
    assert torch.equal(found[statistics], start[statistics]) == (name in KEPT)


def test_a_method_that_is_not_post_hoc_starts_from_its_own_family() -> None:
    assert {METHODS[name].for_network("resnet18").family for name in ("munkey", "knn", "sisa")} == {
        "munkey",
        "knn",
        "sisa",
    }
    assert METHODS["cf"].for_network("resnet18").original.oracle == "retrain-r"
