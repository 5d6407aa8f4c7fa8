"""Every post-hoc method on a ResNet-18, whose batch norms have state beside their weights."""

from collections.abc import Iterator
from functools import cache

import pytest
import torch

from munkey.core.randomness import Stage
from munkey.data.image_set import image_set
from munkey.models.family import FAMILIES, Recipe, System, Training
from munkey.unlearn.contract import METHODS
from tests.models.inputs import quiet
from tests.training.inputs import DATA, RESNET18
from tests.unlearn.world import TRAIN, make_request, same, settings, tensors, weights, world

RECIPE = Recipe(
    DATA, None, TRAIN.model_copy(update={"epochs": 5}), RESNET18, Stage("tiny", "resnet18")
)
POST_HOC = [name for name in METHODS if METHODS[name].original.is_network]
# in eval mode from begin to end: batch statistics stay (JiT's original: train)
KEEP_STATISTICS = {"ssd", "lfssd", "assd", "jit"}


DEFINED = [name for name in POST_HOC if METHODS[name].for_network("resnet18").is_defined]
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


@pytest.mark.parametrize("name", DEFINED)
def test_a_method_changes_a_copy_of_a_resnet_18_the_same_way_each_time(name: str) -> None:
    start = weights(original())
    smaller = {"noise_steps": 4, "copies": 2} if name == "unsir" else {}
    section = settings(name, **smaller)
    first = METHODS[name].run(original(), make_request(name, recipe=RECIPE), section)
    again = METHODS[name].run(original(), make_request(name, recipe=RECIPE), section)
    assert same(start, weights(original()))
    assert same(tensors(first), tensors(again))
    assert first.family == "resnet18"
    assert first.model is not None
    assert not first.model.training
    after = tensors(first)
    for value in after.values():
        assert value.isfinite().all()
    # The original that such a CPU trains is one that LoTUS need not change.
    assert not same(after, start) or (HAS_OLDER_CPU and name == "lotus")
    statistics = "body.layer4.1.bn2.running_mean"
    assert torch.equal(after[statistics], start[statistics]) == (name in KEEP_STATISTICS)


def test_a_method_that_is_not_post_hoc_starts_from_its_own_family() -> None:
    for name in ("munkey", "knn", "sisa"):
        assert METHODS[name].for_network("resnet18").family == name
    assert METHODS["cf"].for_network("resnet18").original.oracle == "retrain-r"
