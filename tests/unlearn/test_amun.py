"""AMUN: what it attacks with, what it trains on, what it reports."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from munkey.data.image_set import JoinedSet, TensorSet
from munkey.models.family import System
from munkey.unlearn.adversarial import AttackResult
from munkey.unlearn.contract import METHODS, Images
from tests.conftest import ROOT
from tests.unlearn.world import answer, forget, original, settings, tuning, unlearn, weights, world


@pytest.fixture
def trained_on(monkeypatch: pytest.MonkeyPatch) -> list[JoinedSet]:
    """What AMUN hands to the fine-tuning."""
    sample_sets: list[JoinedSet] = []

    def look(
        system: System, request: object, factor: float, samples: JoinedSet, **_: object
    ) -> System:
        sample_sets.append(samples)
        return system

    monkeypatch.setattr("munkey.unlearn.finetune.finetune", look)
    return sample_sets


@pytest.mark.parametrize("keep_forget", [False, True])
def test_amun_trains_on_the_retain_set_and_the_adversarial_images(
    trained_on: list[JoinedSet], keep_forget: bool
) -> None:
    _, request = unlearn("amun", changed={"keep_forget": keep_forget})
    *parts, adversarial = trained_on[0].parts
    expected = ["retain", "forget"] if keep_forget else ["retain"]
    for part, name in zip(parts, expected, strict=True):
        assert part.ids.tolist() == world().parts[name].ids.tolist()
    assert isinstance(adversarial, TensorSet)
    assert torch.equal(answer(adversarial.images).argmax(dim=1), adversarial.labels)
    assert (adversarial.labels != forget()[1]).all()
    assert request.facts["failed"] == 0
    assert sum(request.facts["epsilon"].values()) == 13


def test_failed_images_are_left_out_and_reported(trained_on: list[JoinedSet]) -> None:
    _, request = unlearn("amun", changed={"epsilon_cap": 0.04})
    assert request.facts["failed"] >= 5
    assert request.facts["failed"] + sum(request.facts["epsilon"].values()) == 13
    assert set(request.facts["epsilon"]) <= {"0", "0.04"}
    assert len(trained_on[0].parts[1]) == 13 - request.facts["failed"]


def test_amun_trains_even_if_every_attack_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = world().parts["forget"]
    clean, labels = forget()
    is_right = (answer(clean).argmax(dim=1) == labels).numpy()
    assert is_right.any()
    subset = replace(
        samples,
        rows=samples.rows[is_right],
        ids=samples.ids[is_right],
        labels=samples.labels[is_right],
    )
    tiny = {"epsilon": 1e-6, "epsilon_cap": 1e-6}
    system, request = unlearn("amun", changed=tiny, data=world().parts | {"forget": subset})
    assert request.facts == {"epsilon": {}, "failed": int(is_right.sum())}
    assert not np.array_equal(weights(system)["head.bias"], weights(original("amun"))["head.bias"])


def test_the_attack_gets_its_settings_and_its_radii_are_reported(
    trained_on: list[JoinedSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[list[float], int, float]] = []
    attacked = 0
    all_radii = torch.tensor([8, 1, torch.inf, 2, 8] + 8 * [1], dtype=torch.float64) * 0.05

    def attack(
        answer: object,
        clean: torch.Tensor,
        labels: torch.Tensor,
        radii: Sequence[float],
        steps: int,
        stride: float,
    ) -> AttackResult:
        nonlocal attacked
        radius = all_radii[attacked : attacked + len(clean)]
        attacked += len(clean)
        calls.append((list(radii), steps, stride))
        return AttackResult(clean, labels + 1, radius)

    monkeypatch.setattr("munkey.unlearn.adversarial.untargeted_l2", attack)
    lines: list[str] = []
    changed = {"epsilon": 0.05, "epsilon_cap": 0.4, "steps": 7, "stride": 0.3}
    _, request = unlearn("amun", tuned=tuning(batch_size=5), changed=changed, report=lines.append)
    assert calls == [([0.05, 0.1, 0.2, 0.4], 7, 0.3)] * 3
    for line, count in zip(lines, (5, 10, 13), strict=True):
        assert f"{count}/13" in line
    # by rising radius
    assert list(request.facts["epsilon"].items()) == [("0.05", 9), ("0.1", 1), ("0.4", 2)]
    assert request.facts["failed"] == 1
    _, adversarial = trained_on[0].parts
    labels = forget()[1]
    assert torch.equal(adversarial.labels, (labels + 1)[all_radii.isfinite()])


def test_amun_counts_all_steps_of_all_radii_as_its_passes() -> None:
    images = Images(retain=90, forget=10, val=20, epochs=10, batch=10)
    fifty_in_eleven_radii = settings("amun")
    assert METHODS["amun"].count_passes(images, fifty_in_eleven_radii) == 3 * (
        10 * (1 + 50 * 11) + 10 * 100
    )


def test_the_cap_must_reach_the_first_radius() -> None:
    with pytest.raises(ValueError, match="epsilon_cap"):
        settings("amun", epsilon_cap=0.01)


HELD = r"""
import re
from pathlib import Path
import torch
from munkey.models.family import FAMILIES, System
from munkey.unlearn import adversarial, finetune
from munkey.unlearn.contract import METHODS, Request
from tests.conftest import generator, image_set
from tests.models.inputs import quiet
from tests.unlearn.world import ARCHITECTURE, settings, tuning

count, side = 512, 192
floats = count * 3 * side**2 * 4
forget = image_set(count, side)
adversarial.untargeted_l2 = lambda answer, clean, labels, *_: adversarial.AttackResult(
    clean.clone(), labels + 1, torch.ones(len(clean), dtype=torch.float64)
)
finetune.finetune = lambda system, request, factor, samples: (print(len(samples.parts[1]), end=" "), system)[1]
original = System("vit", ARCHITECTURE, FAMILIES["vit"].build(ARCHITECTURE, generator()))
method, parts = METHODS["amun"], {"retain": forget, "forget": forget}
request = Request(forget.ids, generator(), "cpu", quiet, method.needs, parts, finetuning=tuning(batch_size=16))
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # kB, of this process alone
before = peak()
method.run(original, request, settings("amun"))
print((peak() - before) * 1024 / floats)
"""


def test_amun_holds_its_adversarial_images_in_memory_once() -> None:
    """In a process of its own, whose peak of memory is its own: 226 MB of images, n copies of which were 3."""
    done = subprocess.run(
        [sys.executable, "-c", HELD], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    count, copies = done.stdout.split()
    assert int(count) == 512
    assert 0.9 < float(copies) < 1.5
