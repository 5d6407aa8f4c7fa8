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
from munkey.experiment.cost.estimate import CostEstimate, estimate, format_totals
from munkey.experiment.cost.machines import find_machine
from munkey.experiment.plan.plan import Plan
from munkey.studies.paper import preflight
from tests.conftest import ROOT
from tests.experiment.inputs import epyc, plan_of

PAPER = "workflow/presets/paper.yaml"
REHEARSAL = "workflow/presets/rehearsal.yaml"
Usage = namedtuple("Usage", ["total", "used", "free"])


@pytest.fixture(autouse=True)
def equipped_machine(tmp_path, monkeypatch):
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


def test_the_paper_trains_with_three_seeds_what_its_rehearsal_trains_with_one():
    """126 trainings of a seed, counted by hand in tests/integration/test_rehearsal.py."""
    for overlays, trainings in (((PAPER,), 3 * 126), ((PAPER, REHEARSAL), 126)):
        total = next(format_totals(plan_and_costs(*overlays)[1], epyc()))
        assert total.startswith(f"{trainings} training runs")


def faults(*overlays: str) -> list[str]:
    return list(preflight.find_obstacles(*plan_and_costs(*overlays)))


def faults_of(plan: Plan) -> list[str]:
    return list(preflight.find_obstacles(plan, estimate(plan, "paper", epyc())))


def test_an_equipped_machine_has_no_faults():
    assert faults(PAPER) == []


@pytest.mark.parametrize(
    ("module", "function", "reason"),
    [
        (preflight, "has_gpu", "this machine has none"),
        (gpu, "is_available", "driver does not support"),
    ],
)
def test_without_a_gpu_the_paper_is_refused_with_the_way_out_and_a_rehearsal_is_not(
    monkeypatch, module, function, reason
):
    monkeypatch.setattr(module, function, lambda: False)
    (fault,) = faults(PAPER)
    assert reason in fault
    assert "docs/cluster.md" in fault
    assert "make reproduce REHEARSAL=1" in fault
    assert faults(PAPER, REHEARSAL) == []


def test_parameters_that_leave_a_gpu_unused_are_refused():
    (fault,) = faults_of(plan_of(PAPER, device="cpu"))
    assert "device = 'cpu', but" in fault
    assert "REHEARSAL=1" in fault


def test_every_data_set_that_cannot_be_downloaded_is_named(monkeypatch):
    def unreachable(file):
        raise MissingDataError(f"{file.name} is nowhere")

    monkeypatch.setattr(PublishedFile, "bytes_to_download", unreachable)
    assert faults_of(plan_of(PAPER, datasets=["cifar10", "digits", "tinyimagenet"])) == [
        "cifar10: cifar-10-python.tar.gz is nowhere",
        "tinyimagenet: tiny-imagenet-200.zip is nowhere",
    ]


def test_every_encoder_that_cannot_be_downloaded_is_named_once(
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


def test_a_full_disk_is_named_and_present_files_need_no_room(monkeypatch, tmp_path):
    needed = plan_and_costs(PAPER)[1].disk
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, needed - 1000))
    (fault,) = faults(PAPER)
    assert fault.startswith("disk: about 240.1 GB are needed, 0.0 GB")
    assert "folder results" in fault
    (tmp_path / "results/paper").mkdir(parents=True)
    (tmp_path / "results/paper/logits.npz").write_bytes(bytes(2000))
    assert faults(PAPER) == []
    monkeypatch.setattr(PublishedFile, "bytes_to_download", lambda file: 10**9)
    assert len(faults(PAPER)) == 1


def test_a_machine_without_benchmarks_has_the_speeds_of_a_benchmarked_cpu_or_no_speed_with_a_gpu(
    monkeypatch,
):
    monkeypatch.setattr(machines, "has_gpu", lambda: False)
    monkeypatch.setattr(machines, "provenance", lambda params, device: {"device": "an abacus, CPU"})
    machine = find_machine(folder=ROOT / machines.RESULTS)
    assert machine.speeds == epyc().speeds
    assert not machine.measured
    assert "speed of AMD EPYC, CPU" in machine.name
    assert find_machine(folder=Path("empty")).speeds == []
    monkeypatch.setattr(machines, "has_gpu", lambda: True)
    assert find_machine(folder=ROOT / machines.RESULTS).speeds == []
