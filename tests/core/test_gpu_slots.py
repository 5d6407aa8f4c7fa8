"""Jobs that may use a GPU at once are spread over the GPUs, whose names stand here for devices that need not exist."""

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from filelock import FileLock

from munkey.core import gpu_slots
from munkey.core.device import select_device

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
FOUR = ["GPU-a", "GPU-b", "GPU-c", "MIG-GPU-d/1/0"]
Take = Callable[..., str]


@pytest.fixture
def take(monkeypatch, tmp_path) -> Iterator[Take]:
    """Take a slot as a job does: `at_once` jobs share the GPUs. It is held until the test ends, like a job's."""
    locks: list[FileLock | None] = []
    take_slot = gpu_slots.take_slot.__wrapped__

    def taken(at_once: int | None, visible: list[str] = FOUR) -> str:
        monkeypatch.setenv(gpu_slots.VISIBLE, ",".join(visible))
        if at_once:
            monkeypatch.setenv(gpu_slots.JOB_COUNT, str(at_once))
        locks.append(take_slot())
        return os.environ[gpu_slots.VISIBLE]

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv(gpu_slots.JOB_COUNT, raising=False)
    yield taken
    for lock in filter(None, locks):
        lock.release()


def test_a_second_job_goes_to_a_gpu_only_when_every_other_has_one(take: Take) -> None:
    assert [take(8) for _ in range(8)] == FOUR * 2


def test_two_runs_do_not_share_a_gpu_while_another_is_idle(take: Take) -> None:
    assert [take(1), take(1)] == FOUR[:2]


def test_a_job_on_a_cluster_keeps_the_gpus_of_the_scheduler(take: Take) -> None:
    assert [take(None, ["2", "3"]) for _ in range(2)] == ["2,3"] * 2


JOB = """
import os
from munkey.core.gpu_slots import take_slot
take_slot()
take_slot()
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
input()
"""


def test_a_job_waits_for_a_gpu_and_gets_the_one_of_a_job_that_was_killed(tmp_path) -> None:
    environment = os.environ | {
        "CUDA_VISIBLE_DEVICES": "GPU-c",
        "TMPDIR": str(tmp_path),
        "MUNKEY_GPU_JOBS": "1",
    }
    command = [sys.executable, "-u", "-c", JOB]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        subprocess.Popen(command, env=environment, text=True, **pipes) as first,
        subprocess.Popen(command, env=environment, text=True, **pipes) as second,
        ExitStack() as cleanup,
    ):
        cleanup.callback(first.kill)  # else a failure here would wait for them forever
        cleanup.callback(second.kill)
        ready, _, _ = select.select([first.stdout, second.stdout], [], [])
        holds, waits = (first, second) if first.stdout in ready else (second, first)
        lines = {
            holds: holds.stdout.readline().strip(),
            waits: waits.stdout.readline().strip(),
        }
        if lines[waits] == "GPU-c":
            holds, waits = waits, holds
        assert lines == {holds: "GPU-c", waits: "waiting for a GPU: other jobs use GPU-c.0"}
        assert select.select([waits.stdout], [], [], 0.5) == ([], [], [])
        holds.kill()
        assert waits.stdout.readline() == "GPU-c\n"


def test_a_waiting_job_prints_one_line(take: Take, monkeypatch, capsys) -> None:
    free = iter([False, False, True])
    lock = gpu_slots._try_lock
    monkeypatch.setattr(gpu_slots, "_try_lock", lambda path: lock(path) if next(free) else None)
    monkeypatch.setattr(gpu_slots, "POLL_SECONDS", 0.0)
    assert take(1, ["GPU-a"]) == "GPU-a"
    [line] = capsys.readouterr().out.splitlines()
    assert "GPU-a.0" in line


@pytest.mark.parametrize("umask", [0o022, 0o000, 0o077])
def test_the_folder_of_slots_is_private_to_the_user(take: Take, tmp_path, umask) -> None:
    before = os.umask(umask)
    try:
        assert take(1) == "GPU-a"
    finally:
        os.umask(before)
    [folder] = tmp_path.iterdir()
    assert folder.name == f"munkey-gpus-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o077 for file in folder.iterdir()} == {0}


def test_a_folder_of_slots_that_others_can_read_becomes_private(tmp_path) -> None:
    (tmp_path / "slots").mkdir()
    (tmp_path / "slots").chmod(0o777)
    assert gpu_slots.make_private_folder(tmp_path / "slots").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("whose", ["another's", "a link", "a file"])
def test_no_slot_is_taken_in_a_place_that_is_not_the_users_own_folder(
    take: Take, whose, tmp_path, monkeypatch
) -> None:
    user = os.getuid() + (whose == "another's")
    monkeypatch.setattr(os, "getuid", lambda: user)
    place = tmp_path / f"munkey-gpus-{user}"
    (tmp_path / "mine").mkdir()
    if whose == "another's":
        place.mkdir()
    elif whose == "a link":
        place.symlink_to("mine")
    else:
        place.touch()
    with pytest.raises(PermissionError, match="TMPDIR"):
        take(1)
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.parametrize(("at_once", "expected"), [(4, "4"), (None, "1")])
def test_each_gpu_takes_one_job_without_a_limit(monkeypatch, at_once, expected) -> None:
    monkeypatch.setenv(gpu_slots.JOB_COUNT, "to be restored")
    gpu_slots.share(at_once)
    assert os.environ[gpu_slots.JOB_COUNT] == expected


def test_gpus_are_counted_where_none_are_named(monkeypatch, tmp_path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia7"):
        (tmp_path / name).touch()
    monkeypatch.delenv(gpu_slots.VISIBLE, raising=False)
    monkeypatch.setattr(gpu_slots, "DEVICES", tmp_path)
    assert gpu_slots._list_gpu_names() == ["0", "1", "2"]  # as CUDA counts them


def test_a_job_takes_its_gpu_before_cuda_is_queried(monkeypatch, take: Take) -> None:
    visible: list[str | None] = []
    monkeypatch.setattr(
        "torch.cuda.is_available",
        lambda: bool(visible.append(os.environ.get(gpu_slots.VISIBLE))) or True,
    )
    monkeypatch.setattr(gpu_slots, "take_slot", lambda: take(4))
    assert select_device(1) == "cuda"
    assert visible == ["GPU-a"]


@pytest.mark.ci
def test_no_import_of_a_job_starts_cuda() -> None:
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
