"""Every stage's generator depends on every part of its name, and on nothing else."""

import subprocess
import sys

import torch

from munkey.randomness import derive_seed, numpy_generator, torch_generator
from tests.conftest import global_state

PARTS = (0, "digits", "full", "munkey", "weights")


def test_a_seed_depends_on_every_part():
    others = [(*PARTS[:place], "other", *PARTS[place + 1 :]) for place in range(len(PARTS))]
    seeds = {derive_seed(*parts) for parts in [PARTS, *others, PARTS[:-1]]}
    assert len(seeds) == len(PARTS) + 2
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_seed_is_the_same_in_every_process():
    code = f"from munkey.randomness import derive_seed; print(derive_seed(*{PARTS}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == derive_seed(*PARTS)


def test_generators_repeat_for_the_same_parts_and_leave_the_global_ones_alone():
    state = global_state()
    assert numpy_generator(*PARTS).random() == numpy_generator(*PARTS).random()
    assert torch.equal(
        torch.rand(3, generator=torch_generator(*PARTS)), torch.rand(3, generator=torch_generator(*PARTS))
    )
    assert global_state() == state
