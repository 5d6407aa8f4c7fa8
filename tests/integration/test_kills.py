"""After a kill or a full disk, the commands of the docs end with the bytes of an undisturbed run."""

import itertools
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import BIN, Project
from tests.integration.faults import Running, disk, results

DOWNSTREAM = ("metrics", "tables", "track")


@pytest.mark.soak(long=True)
def test_random_kills_end_with_the_same_bytes(
    fresh: Project, finished: Project, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "project")
    draw = random.Random(13)
    due = list(itertools.islice(itertools.cycle(("fork", "job", "server", "snakemake")), 10))
    while due:
        running = Running(project)
        kind = "none yet"
        while due and kind not in ("", "snakemake"):
            time.sleep(draw.uniform(0.5, 3.0))
            kind = running.kill_one(draw, due[0])
            if kind:
                due.pop(0)
        running.process.wait()
        if kind == "snakemake":
            project.run("snakemake", "--unlock")
        elif running.process.returncode == 0:  # done before all were killed
            shutil.rmtree(project.path / "results/default/models")
    project.snakemake()
    assert project.planned() == {}
    files = results(project)
    expected = results(finished)
    assert sorted(files) == sorted(expected)
    assert [path for path in expected if files[path] != expected[path]] == []


@pytest.mark.soak(long=True)
@pytest.mark.skipif(sys.platform != "linux", reason="tmpfs")
def test_a_full_disk_is_named_and_with_room_again_the_run_ends_with_the_same_bytes(
    fresh: Project, finished: Project, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "project")
    with disk(project.path / "results", "6m"):
        full = project.snakemake(check=False)
        assert full.returncode != 0
        assert "cannot be written" in full.stderr
        assert "the same command again" in full.stderr
        subprocess.run(["mount", "-o", "remount,size=1g", project.path / "results"], check=True)
        project.snakemake()
        assert results(project) == results(finished)


def test_a_failed_run_ends_with_the_reason_and_makes_all_that_does_not_depend_on_it(
    project: Project,
) -> None:
    method = project.path / "src/munkey/unlearn/methods/cf.py"
    failing = '    raise RuntimeError("broken")\n    return finetune'
    method.write_text(method.read_text().replace("    return finetune", failing))
    project.params({"inference": {"k": 3}})  # evaluates MUNKEY again
    done = project.snakemake(check=False)
    assert done.returncode != 0
    log = "logs/default/unlearn/digits/seed0/rate0.1/cf.log"
    assert done.stderr.rstrip().splitlines()[-5:-1] == [
        "1 job failed:",
        "unlearn with cf: digits, seed 0, rate 0.1",
        "  RuntimeError: broken",
        f"  log: {log}",
    ]
    terminal = done.stdout + done.stderr
    assert terminal.count("RuntimeError") == 1
    assert "Traceback" not in terminal
    assert 'raise RuntimeError("broken")' in (project.path / log).read_text()
    planned = project.planned()
    assert set(planned) == {"unlearn", "evaluate", *DOWNSTREAM}
    assert planned["evaluate"] == 1


@pytest.mark.ci
def test_the_lock_of_a_killed_run_is_reported_with_the_command_that_removes_it(
    project: Project,
) -> None:
    project.params({"train": {"lr": 2e-3}})
    running = Running(project)
    while "job" not in running.processes():
        assert running.process.poll() is None
        time.sleep(0.05)
    processes = [psutil.Process(pid) for pids in running.processes().values() for pid in pids]
    running.process.kill()
    running.process.wait()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert alive == []
    locked = project.snakemake(check=False)
    assert locked.returncode != 0
    assert "--unlock" in locked.stderr
    project.run("snakemake", "--unlock")
    assert project.snakemake("-n").returncode == 0


PLUGIN = """
import os, subprocess
from pathlib import Path
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False, pass_default_storage_provider_args=False,
    pass_default_resources_args=False, pass_envvar_declarations_to_cmd=False, init_seconds_before_status_checks=0,
)

class Executor(RemoteExecutor):
    def run_job(self, job):
        Path("environment").write_text("\\n".join(sorted(os.environ)))
        self.process = subprocess.Popen(self.format_job_exec(job), shell=True)
        self.report_job_submission(SubmittedJobInfo(job))

    async def check_active_jobs(self, jobs):
        for job in jobs:
            if self.process.poll() is None:
                yield job
            else:
                self.report_job_success(job)

    def cancel_jobs(self, jobs):
        pass
"""


@pytest.mark.ci
def test_on_a_cluster_there_is_no_fork_server(fresh: Project, tmp_path: Path) -> None:
    """Shown with an executor that submits jobs to this machine."""
    project = fresh.copy(tmp_path / "project")
    (project.path / "src/snakemake_executor_plugin_here").mkdir()
    (project.path / "src/snakemake_executor_plugin_here/__init__.py").write_text(PLUGIN)
    target = "results/default/data/digits/images.npy"
    options = ("--executor", "here", "--jobs", "1", "--seconds-between-status-checks", "1")
    # Not in a fork: Snakemake looks for its plugins as it starts.
    project.run(str(BIN / "snakemake"), *options, "--", target)
    assert (project.path / target).exists()
    assert not re.search("MUNKEY_RUN|MUNKEY_GPU_JOBS", (project.path / "environment").read_text())


def test_jobs_get_the_number_of_jobs_that_share_the_gpus(fresh: Project, tmp_path: Path) -> None:
    project = fresh.copy(tmp_path / "project")
    script = project.path / "workflow/scripts/job.py"
    record = "import os\nopen('gpu-jobs', 'w').write(os.environ['MUNKEY_GPU_JOBS'])\n"
    script.write_text(record + script.read_text())
    options = ("--cores", "1", "--resources", "gpu=3")
    file = "results/default/data/digits/images.npy"
    project.run("snakemake", *options, "--", file, MUNKEY_FORK_SERVER="0")
    assert (project.path / "gpu-jobs").read_text() == "3"
