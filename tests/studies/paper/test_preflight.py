"""Before the paper's experiment: what is missing here is named with what to do, and what it will take is said."""

import shutil
from collections import namedtuple
from functools import cache
from pathlib import Path

import pytest

from munkey.core import gpu
from munkey.data.download import MissingDataError, PublishedFile
from munkey.encoders.registry import MissingEncoderError
from munkey.experiment.cost import machines
from munkey.experiment.cost.estimate import CostEstimate, estimate
from munkey.experiment.cost.machines import find_machine
from munkey.experiment.plan.plan import Plan
from munkey.studies.paper import preflight
from tests.conftest import ROOT
from tests.experiment.inputs import epyc, plan_of

PAPER = "workflow/presets/paper.yaml"
REHEARSAL = "workflow/presets/rehearsal.yaml"
Usage = namedtuple("Usage", ["total", "used", "free"])


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    """A folder with nothing in it, on a machine without a network but with a GPU, encoders and much room."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PublishedFile, "bytes_to_download", lambda file: 0)
    monkeypatch.setattr(preflight, "require_repository", lambda name, revision: None)
    monkeypatch.setattr(preflight, "has_gpu", lambda: True)
    monkeypatch.setattr(gpu, "is_available", lambda: True)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 10**12))


@cache
def plan_and_costs(*overlays: str) -> tuple[Plan, CostEstimate]:
    plan = plan_of(*overlays)
    return plan, estimate(plan, "paper", epyc())


def faults(*overlays: str) -> list[str]:
    return list(preflight.find_obstacles(*plan_and_costs(*overlays)))


def faults_of(plan: Plan) -> list[str]:
    return list(preflight.find_obstacles(plan, estimate(plan, "paper", epyc())))


def test_a_machine_with_all_of_it_is_ready():
    assert faults(PAPER) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda patch: patch.setattr(preflight, "has_gpu", lambda: False),
            "this machine has none",
        ),
        (
            lambda patch: patch.setattr(gpu, "is_available", lambda: False),
            "driver does not support the installed torch",
        ),
    ],
)
def test_without_a_gpu_the_paper_is_refused_with_what_to_do_and_a_rehearsal_is_not(
    monkeypatch, change, why
):
    change(monkeypatch)
    (fault,) = faults(PAPER)
    assert why in fault
    assert "docs/cluster.md" in fault
    assert "make reproduce REHEARSAL=1" in fault
    assert faults(PAPER, REHEARSAL) == []


def test_parameters_that_leave_a_gpu_unused_are_refused_too():
    (fault,) = faults_of(plan_of(PAPER, device="cpu"))
    assert "device = 'cpu', but" in fault
    assert "REHEARSAL=1" in fault


def test_every_data_set_that_cannot_be_had_is_named(monkeypatch):
    def unreachable(file):
        raise MissingDataError(f"{file.name} is nowhere")

    monkeypatch.setattr(PublishedFile, "bytes_to_download", unreachable)
    said = faults_of(plan_of(PAPER, datasets=["cifar10", "digits", "tinyimagenet"]))
    names = ["cifar-10-python.tar.gz", "tiny-imagenet-200.zip"]
    assert said == [
        f"{each}: {name} is nowhere"
        for each, name in zip(("cifar10", "tinyimagenet"), names, strict=True)
    ]


def test_every_encoder_that_cannot_be_had_is_named_once_and_those_in_folders_are_not_looked_up(
    monkeypatch,
):
    def unreachable(name, revision):
        raise MissingEncoderError(f"{name} at {revision[:4]}")

    monkeypatch.setattr(preflight, "require_repository", unreachable)
    assert faults(PAPER) == [
        "openai/clip-vit-base-patch32 at 3d74",
        "facebook/dinov2-base at f9e4",
        "google/vit-base-patch16-224 at 3f49",
    ]
    assert faults() == []  # its encoder comes from a package


def test_a_disk_without_room_is_named_with_what_is_there_already(monkeypatch, tmp_path):
    needed = plan_and_costs(PAPER)[1].disk
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, needed - 1000))
    (fault,) = faults(PAPER)
    assert fault.startswith("disk: about 240.1 GB are needed, 0.0 GB")
    assert "make the folder results a link" in fault
    (tmp_path / "results/paper").mkdir(parents=True)
    (tmp_path / "results/paper/logits.npz").write_bytes(bytes(2000))
    assert faults(PAPER) == []
    monkeypatch.setattr(PublishedFile, "bytes_to_download", lambda file: 10**9)
    assert len(faults(PAPER)) == 1


def test_a_machine_that_was_not_benchmarked_has_the_speeds_of_a_cpu_that_was_and_a_gpu_none(
    monkeypatch,
):
    monkeypatch.setattr(machines, "has_gpu", lambda: False)
    monkeypatch.setattr(machines, "provenance", lambda params, device: {"device": "an abacus, CPU"})
    on = find_machine(folder=ROOT / machines.RESULTS)
    assert on.speeds == epyc().speeds
    assert not on.measured
    assert on.name == "this machine, not benchmarked, at the speed of AMD EPYC, CPU"
    assert find_machine(folder=Path("empty")).speeds == []
    monkeypatch.setattr(machines, "has_gpu", lambda: True)
    assert find_machine(folder=ROOT / machines.RESULTS).speeds == []
