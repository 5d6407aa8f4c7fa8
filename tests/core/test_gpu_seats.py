"""Jobs that may use a GPU at once are spread over the GPUs, whose names stand here for devices that need not exist."""

import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from munkey.core import gpu_seats
from munkey.core.device import device_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
JOB = """
import os
from munkey.core.gpu_seats import take_one
take_one()
take_one()
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
input()
"""
FOUR = "GPU-a,GPU-b,GPU-c,MIG-GPU-d/1/0"
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a job that holds its GPU until it is killed; its first lines tell which."""
    jobs: list[subprocess.Popen[str]] = []

    def started(visible: str = FOUR, **environment: str) -> subprocess.Popen[str]:
        variables = os.environ | {"CUDA_VISIBLE_DEVICES": visible, "TMPDIR": str(tmp_path)} | environment
        jobs.append(
            subprocess.Popen(
                [sys.executable, "-u", "-c", JOB],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        return jobs[-1]

    yield started
    for job in jobs:
        job.kill()
        job.communicate()


def line(job: subprocess.Popen[str]) -> str:
    return job.stdout.readline().strip()


def test_four_jobs_at_once_have_four_gpus(start: Start) -> None:
    jobs = [start(MUNKEY_GPU_JOBS="4") for _ in range(4)]
    assert sorted(map(line, jobs)) == FOUR.split(",")


def test_eight_jobs_at_once_are_two_on_each_gpu(start: Start) -> None:
    jobs = [start(MUNKEY_GPU_JOBS="8") for _ in range(8)]
    assert Counter(map(line, jobs)) == dict.fromkeys(FOUR.split(","), 2)


def test_a_second_job_goes_to_a_gpu_only_when_every_other_has_one(start: Start) -> None:
    jobs = [start(MUNKEY_GPU_JOBS="8") for _ in range(4)]
    assert sorted(map(line, jobs)) == FOUR.split(",")


def test_a_job_waits_for_a_gpu_and_gets_the_one_of_a_job_that_was_killed(start: Start) -> None:
    jobs = {line(job): job for job in (start(MUNKEY_GPU_JOBS="4") for _ in range(4))}
    late = start(MUNKEY_GPU_JOBS="4")
    assert line(late).startswith("waiting for a GPU: other jobs use GPU-a.0, GPU-b.0, GPU-c.0, MIG-GPU-d-1-0.0")
    assert select.select([late.stdout], [], [], 1) == ([], [], [])
    jobs["GPU-c"].kill()
    assert line(late) == "GPU-c"


def test_two_runs_do_not_meet_on_one_gpu_while_another_is_idle(start: Start) -> None:
    assert line(start(MUNKEY_GPU_JOBS="1")) == "GPU-a"
    assert line(start(MUNKEY_GPU_JOBS="1")) == "GPU-b"


def test_on_a_cluster_a_job_keeps_the_gpus_that_the_scheduler_chose(start: Start) -> None:
    assert line(start("2,3")) == line(start("2,3")) == "2,3"


@pytest.mark.parametrize(("at_once", "expected"), [(4, "4"), (None, "1")])
def test_without_a_limit_each_gpu_takes_one_job(monkeypatch, at_once, expected) -> None:
    monkeypatch.setenv(gpu_seats.AT_ONCE, "to be restored")
    gpu_seats.share(at_once)
    assert os.environ[gpu_seats.AT_ONCE] == expected


def test_gpus_are_counted_where_none_are_named(monkeypatch, tmp_path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia7"):
        (tmp_path / name).touch()
    monkeypatch.delenv(gpu_seats.VISIBLE, raising=False)
    monkeypatch.setattr(gpu_seats, "DEVICES", tmp_path)
    assert gpu_seats._names() == ["0", "1", "2"]  # as CUDA counts them


def test_a_job_has_its_gpu_before_cuda_is_asked(monkeypatch, tmp_path) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: bool(seen.append(os.environ.get(gpu_seats.VISIBLE))) or True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv(gpu_seats.VISIBLE, FOUR)
    monkeypatch.setenv(gpu_seats.AT_ONCE, "4")
    gpu_seats.take_one.cache_clear()
    try:
        assert device_of(1) == "cuda"
    finally:
        gpu_seats.take_one.cache_clear()
    assert seen == ["GPU-a"]


@pytest.mark.slow
def test_nothing_that_a_job_imports_starts_cuda() -> None:
    """Else a fork could not use it, and a job would see every GPU."""
    code = """
import importlib, pkgutil, torch, munkey
from munkey.experiment.run.fork_server import LIBRARIES
started = []
for name in ("_cuda_getDeviceCount", "_cuda_init"):
    setattr(torch._C, name, lambda *_: started.append(1) or 0)
for name in LIBRARIES + tuple(each.name for each in pkgutil.walk_packages(munkey.__path__, "munkey.")):
    importlib.import_module(name)
    assert not started, name
torch.cuda.is_available()
print(started)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[1]"  # the witness sees a start
