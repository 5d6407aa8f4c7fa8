"""The same DAG through a real SLURM: the profile's table, its groups, and failures in the middle."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import yaml

from tests.conftest import wait
from tests.integration.conftest import Project
from tests.integration.faults import results
from tests.integration.slurm import DAEMONS, Cluster, executable

PROFILE = ("--profile", "profiles/slurm")
# Ask for the state of jobs every two seconds; after each answer without news, the plugin waits 10 s longer.
OFTEN = """
import asyncio
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor


async def sleep(self):
    await asyncio.sleep(2)


RemoteExecutor.sleep = sleep
"""
MISSING = [daemon for daemon in DAEMONS if executable(daemon) is None]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.stop()


def adapt_profile(project: Project) -> None:
    """Change the profile as docs/cluster.md says, here without accounting."""
    path = project.path / "profiles/slurm/config.yaml"
    profile = yaml.safe_load(path.read_text())
    profile |= {
        "slurm-status-command": "squeue",
        "slurm-init-seconds-before-status-checks": 1,
        "latency-wait": 5,
    }
    profile["set-resources"]["train"]["gres"] = "gpu:1"  # the fake one; torch computes on the CPU
    profile["group-components"]["train"] = 2
    path.write_text(yaml.safe_dump(profile, sort_keys=False))
    with (project.path / "Snakefile").open("a") as snakefile:
        snakefile.write(OFTEN)


class Running:
    """A run through the cluster, in the background."""

    def __init__(self, project: Project, cluster: Cluster) -> None:
        self.project = project
        self.cluster = cluster
        paths = f"{cluster.folder}:{project.environment()['PATH']}"
        self.process = project.start(
            "snakemake", *PROFILE, SLURM_CONF=cluster.environment["SLURM_CONF"], PATH=paths
        )

    def job_of(self, function: str) -> int:
        """The process of a job that runs this function of munkey.jobs, as soon as there is one."""
        process_ids: list[int] = []

        def runs() -> bool:
            assert self.process.poll() is None, self.words()
            process_ids.extend(pid for pid in psutil.pids() if self._runs(pid, function))
            return bool(process_ids)

        wait(runs, self.words, 1500)
        return process_ids[0]

    def _runs(self, pid: int, function: str) -> bool:
        """Whether a process is such a job: Snakemake writes its parameters into the script."""
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            script = (process.cmdline() + [""] * 2)[1]
            of_ours = script.endswith("job.py") and process.cwd() == str(self.project.path)
            return of_ours and function.encode() in Path(script).read_bytes()
        return False

    def words(self) -> str:
        return f"{(self.project.path / 'run.log').read_text()[-5000:]}\n{self.cluster.logs()}"


class Submission(NamedTuple):
    state: str
    memory: int  # [MiB]
    minutes: int
    gpus: str


def trainings(cluster: Cluster) -> list[Submission]:
    """The submissions of the group `train`, in their order."""
    lines = cluster.run(
        "squeue", "--states=all", "--sort=i", "--noheader", "--format=%k|%T|%m|%l|%b"
    ).splitlines()
    submissions = []
    for line in lines:
        comment, state, memory, limit, gpus = line.split("|")
        if "_train" in comment:
            submissions.append(Submission(state, int(memory.rstrip("M")), minutes(limit), gpus))
    return submissions


def minutes(limit: str) -> int:
    """Minutes of a time as SLURM writes it: [DAYS-]HOURS:MINUTES:SECONDS."""
    days, _, clock = limit.rpartition("-")
    hours, remaining_minutes, _ = map(int, clock.split(":"))
    return 60 * (24 * int(days or 0) + hours) + remaining_minutes


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.skipif(
    bool(MISSING), reason=f"needs {', '.join(MISSING)}: apt-get install slurm-wlm munge"
)
def test_a_killed_job_and_a_killed_node_end_with_the_bytes_of_a_local_run(
    fresh: Project, finished: Project, cluster: Cluster, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "project")
    adapt_profile(project)
    # Of the three methods that of most kinds of jobs: here each of them starts two processes of Snakemake.
    project.params({"methods": ["munkey"]})
    running = Running(project, cluster)
    os.kill(running.job_of("train.train"), signal.SIGKILL)
    running.job_of("evaluate.evaluate")
    cluster.kill("slurmd")
    time.sleep(3)
    cluster.start("slurmd", "-D")
    assert running.process.wait(1500) == 0, running.words()
    files = results(project)
    expected = results(finished)
    assert sum(path.name == "system.safetensors" for path in files) == 5
    assert [path for path in files if files[path] != expected[path]] == []
    # Four trainings are two groups, which SLURM holds at once: the second in its queue need not be a retry.
    submissions = trainings(cluster)
    assert {each.gpus for each in submissions} == {"gres:gpu:1"}
    [killed] = [each for each in submissions if each.state == "FAILED"]
    retry = Submission("COMPLETED", 2 * killed.memory, 2 * killed.minutes, killed.gpus)
    assert len(submissions) == 3
    assert submissions.count(retry) == 1
    [other] = [each for each in submissions if each not in (killed, retry)]
    assert other.state == "COMPLETED"
    assert other.memory == killed.memory
