"""The default methods, six times, with faults at random: nothing is lost or left over, and the bytes are the same."""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.measuring import RESULTS, file_for, this_machine
from munkey.training.checkpoint import FOLDER
from tests.conftest import wait
from tests.integration.conftest import BIN, Project, checkout
from tests.integration.faults import Running, disk, results
from tests.integration.slurm import free_ports

ROUNDS = 6
FAULTS = 8
CORES = 2
SMALLER = {"seeds": [0], "source": {"limit_per_class": {"train": 40}}, "checkpoint_s": 1}
KINDS = ("job", "fork", "server", "snakemake", "disk", "tracking")  # of faults
PAUSE = (1.0, 20.0)  # between faults [s]
HOUR = 3600
TEMPORARY = re.compile(r"\..+\.\d+-\w+(\.\w+)?")


class Tracking:
    """An MLflow server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        (self.port,) = free_ports(1)
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        if self.process:
            return
        command = [
            BIN / "mlflow", "server", "--port", str(self.port), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{self.folder}/store.db",
            "--artifacts-destination", self.folder / "artifacts",
        ]  # fmt: skip
        environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        wait(self.answers, (self.folder / "log").read_text, 600)

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"{self.uri}/health", timeout=10).status == 200
        return False

    def kill(self) -> None:
        if self.process:
            for process in (
                *psutil.Process(self.process.pid).children(recursive=True),
                self.process,
            ):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self.process.wait()
            self.process = None


def runs_in(uri: str) -> list[tuple[str, str]]:
    """(experiment, run) of every run in a store."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    return sorted(
        (experiment.name, run.info.run_name)
        for experiment in client.search_experiments()
        for run in client.search_runs([experiment.experiment_id], max_results=50_000)
    )


class Soak:
    """A project that is run until it is done, while `FAULTS` faults happen to it."""

    def __init__(
        self, project: Project, tracking: Tracking, draw: random.Random, temporary: Path
    ) -> None:
        self.project = project
        self.tracking = tracking
        self.draw = draw
        self.temporary = temporary
        self.results = project.path / "results"
        self.faults: Counter[str] = Counter()
        self.attempts = 0
        self.remade = 0

    def run(self) -> None:
        """Until a run ends well to which nothing happened."""
        disturbed = True
        while disturbed:
            before = self.records()
            disturbed = self.attempt()
            after = self.records()
            again = [path for path in before if after.get(path) != before[path]]
            assert len(again) <= CORES, again  # only what was being made when Snakemake was killed
            self.remade += len(again)

    def records(self) -> dict[Path, int]:
        """When each result was made."""
        return {
            path: path.stat().st_mtime_ns for path in sorted(self.results.rglob("*record.json"))
        }

    def attempt(self) -> bool:
        """Whether something went wrong."""
        self.attempts += 1
        self.tracking.start()
        running = Running(self.project, TMPDIR=str(self.temporary))
        happened = ""
        while self.faults.total() < FAULTS and happened != "snakemake":
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(self.draw.uniform(*PAUSE))
            fault = self.fault(running)
            if not fault:
                break
            self.faults[fault] += 1
            happened = fault
        code = running.process.wait()
        if happened == "snakemake":
            self.project.run("snakemake", "--unlock")
        return bool(code or happened)

    def fault(self, running: Running) -> str:
        """Let one happen; empty where the run has ended."""
        kind = self.draw.choice(KINDS)
        if kind == "disk" and running.process.poll() is None:
            self.fill_disk()
        elif kind == "tracking" and running.process.poll() is None:
            self.tracking.kill()
        else:
            return running.kill_one(self.draw, kind)
        return kind

    def fill_disk(self) -> None:
        """No room for five seconds."""
        used = shutil.disk_usage(self.results).used
        self.remount(f"{used // 1024 + 64}k")
        time.sleep(5)
        self.remount("4g")

    def remount(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self.results], check=True)


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The default methods with one seed and 400 training images, nothing run."""
    project = checkout(tmp_path_factory.mktemp("default") / "project")
    project.params(SMALLER)
    project.commit("default")
    return project


@pytest.fixture(scope="module")
def undisturbed(default: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same, after a run to which nothing happens."""
    project = default.copy(tmp_path_factory.mktemp("undisturbed") / "project")
    started = time.monotonic()
    project.run("snakemake", "--cores", str(CORES), "--resources", "gpu=1", timeout=HOUR)
    keep({"machine": this_machine("cpu"), "undisturbed_min": minutes_since(started)})
    return project


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tracking]:
    server = Tracking(tmp_path / "tracking")
    yield server
    server.kill()


@pytest.mark.soak(long=True)
@pytest.mark.parametrize("round_number", range(ROUNDS))
def test_a_run_with_random_faults_ends_with_the_same_bytes(
    default: Project, undisturbed: Project, server: Tracking, tmp_path: Path, round_number: int
) -> None:
    project = default.copy(tmp_path / "project")
    project.params({"tracking": {"uri": server.uri}})
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    soak = Soak(project, server, random.Random(round_number), temporary)
    started = time.monotonic()
    with disk(project.path / "results", "4g"):
        soak.run()
        assert project.planned() == {}
        files = results(project)
        expected = results(undisturbed)
        assert sorted(files) == sorted(expected)
        assert [path for path in expected if files[path] != expected[path]] == []
        assert leftovers(project, temporary) == []
    expected_runs = runs_in(f"sqlite:///{undisturbed.path}/mlflow.db")
    assert runs_in(f"sqlite:///{server.folder}/store.db") == expected_runs
    passed = {
        "number": round_number,
        "faults": {kind: soak.faults[kind] for kind in KINDS},
        "runs": soak.attempts,
        "remade": soak.remade,
        "minutes": minutes_since(started),
    }
    keep({"rounds": [passed]})


def minutes_since(started: float) -> float:
    """Minutes on the monotonic clock, to a tenth."""
    return round((time.monotonic() - started) / 60, 1)


def keep(findings: dict[str, Any]) -> None:
    """Add to the findings of this machine, for docs/running.md; a repeated round replaces the earlier one."""
    path = file_for(this_machine("cpu"), "soak", RESULTS)
    before = json.loads(path.read_text()) if path.exists() else {}
    rounds = {}
    for one_round in (*before.get("rounds", []), *findings.get("rounds", [])):
        rounds[one_round["number"]] = one_round
    everything = {**before, **findings, "rounds": [rounds[number] for number in sorted(rounds)]}
    path.write_text(json.dumps(everything, indent=2) + "\n")


def leftovers(project: Project, temporary: Path) -> list[object]:
    """Temporary files, checkpoints, locks and processes that outlived the run."""
    unfinished = []
    for folder in ("results", "cache"):
        for path in (project.path / folder).rglob("*"):
            is_in_checkpoint = FOLDER in path.relative_to(project.path).parents
            if path.is_file() and (TEMPORARY.fullmatch(path.name) or is_in_checkpoint):
                unfinished.append(path)
    locks = [path for path in (project.path / ".snakemake/locks").rglob("*") if path.is_file()]
    runs = list(temporary.glob("munkey-run-*"))
    # A dry run of the test itself may just be ending.
    _, processes = psutil.wait_procs(processes_in(project.path), timeout=30)
    return [*unfinished, *locks, *runs, *processes]


def processes_in(folder: Path) -> list[psutil.Process]:
    """Processes whose working directory is this folder."""
    inside = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if Path(process.cwd()) == folder:
                inside.append(process)
    return inside
