"""The generator of a stage depends on every part of its name, and on nothing else."""

import numpy as np
import pytest
import torch

from munkey.core.randomness import Stage
from tests.conftest import global_state

PARTS = (0, "digits", "full", "munkey", "weights")


def test_a_seed_depends_on_every_part():
    seeds = {Stage(*PARTS).seed(), Stage(*PARTS[:-1]).seed()}
    for place in range(len(PARTS)):
        others = list(PARTS)
        others[place] = "other"
        seeds.add(Stage(*others).seed())
    assert len(seeds) == len(PARTS) + 2
    assert min(seeds) >= 0
    assert max(seeds) < 2**63


@pytest.mark.parametrize(
    ("stage", "seed"),
    [
        # The first 8 bytes of SHA-256 of the text below, as a big-endian number, halved.
        (Stage("a", "b"), 0xC14CDDC033F64B9D >> 1),  # a/b
        (Stage(0, "digits", "full", "vit"), 0xDDB3D9B58439731A >> 1),  # 0/digits/full/vit
    ],
)
def test_a_seed_is_the_first_bytes_of_a_hash_of_the_name(stage, seed):
    assert stage.seed() == seed


def test_generators_start_from_the_seed():
    stage = Stage(*PARTS)
    assert stage.torch_generator().initial_seed() == stage.seed()
    assert stage.numpy_generator().random() == np.random.default_rng(stage.seed()).random()


def test_generators_repeat_for_the_same_parts_and_leave_the_global_ones_alone():
    state = global_state()
    assert Stage(*PARTS).numpy_generator().random() == Stage(*PARTS).numpy_generator().random()
    first = torch.rand(3, generator=Stage(*PARTS).torch_generator())
    second = torch.rand(3, generator=Stage(*PARTS).torch_generator())
    assert torch.equal(first, second)
    assert global_state() == state


def test_a_stage_within_a_stage_has_both_names():
    whole = Stage(0, "digits", "full", 1)
    assert Stage(0, "digits") / "full" / 1 == whole
    assert Stage("0", "digits", "full", "1") == whole
    assert len({Stage("a") / "b", Stage("a", "b"), Stage("a")}) == 2
