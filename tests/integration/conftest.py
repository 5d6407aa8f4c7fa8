"""Real runs of the pipeline on a tiny grid, each in a git repository of its own."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from filelock import FileLock

from tests.integration import warm
from tests.integration.warm import BIN, ROOT

LOGGED_RUNS = 19  # of the tiny grid: 9 systems, each as a method and with its one seed; the tables


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with changes, section by section."""
    out = dict(base)
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


class Project:
    """A checkout with its own code, parameters and results. plugins: a folder with further packages, if any."""

    def __init__(self, path: Path, plugins: Path | None = None) -> None:
        self.path = path
        self.plugins = plugins

    def environment(self, **more: str) -> dict[str, str]:
        """Variables with which commands are those of the tests' environment, and the code this checkout's."""
        packages = [str(self.path / "src")]
        if self.plugins:
            packages.append(str(self.plugins))
        variables = os.environ | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(packages),
            "DVC_NO_ANALYTICS": "1",
            "COLUMNS": "200",
        }
        variables.pop("SNAKEMAKE_PROFILE", None)
        return variables | more

    def start(self, *command: str, **env: str) -> subprocess.Popen:
        """Start a command in a session of its own; its output is added to run.log."""
        with (self.path / "run.log").open("a") as log:
            return subprocess.Popen(
                command,
                cwd=self.path,
                env=self.environment(**env),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def run(
        self, *command: str, check: bool = True, timeout: int = 600, **env: str
    ) -> subprocess.CompletedProcess:
        """Run a command of the environment here, with this checkout's code.

        Snakemake, munkey and scripts run in a fork that has imported their libraries (`warm`). Named by their path
        in `BIN`, they start as users start them.
        """
        variables = self.environment(**env)
        if command[0] in ("snakemake", "munkey"):
            done = warm.run((str(BIN / command[0]), *command[1:]), self.path, variables, timeout)
        elif command[0] == "python" and command[1].endswith(".py"):
            done = warm.run(command[1:], self.path, variables, timeout)
        else:
            done = subprocess.run(
                command,
                cwd=self.path,
                env=variables,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        assert not check or done.returncode == 0, (
            f"{command} failed:\n{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
        )
        return done

    def snakemake(
        self, *arguments: str, cores: int = 2, check: bool = True
    ) -> subprocess.CompletedProcess:
        command = ("snakemake", "--cores", str(cores), "--resources", "gpu=1")
        return self.run(*command, *arguments, check=check)

    def make(self, *files: str, check: bool = True) -> subprocess.CompletedProcess:
        """Make a few files."""
        return self.snakemake("--", *files, check=check)

    def planned(self, *arguments: str) -> dict[str, int]:
        """How many jobs of each rule a run would do now; empty if there is nothing to be done."""
        done = self.snakemake("-n", *arguments)
        text = done.stdout + done.stderr
        if "Nothing to be done" in text:
            return {}
        table = text[text.rindex("Job stats:") :]
        jobs = {}
        for rule, count in re.findall(r"^(\w+) +(\d+)$", table, flags=re.MULTILINE):
            if rule not in ("total", "all"):
                jobs[rule] = int(count)
        return jobs

    def params(self, changes: Mapping[str, Any]) -> None:
        """Change params.yaml."""
        path = self.path / "params.yaml"
        params = merge(yaml.safe_load(path.read_text()), changes)
        path.write_text(yaml.safe_dump(params, sort_keys=False))

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "commit", "-qm", message)

    def copy(self, target: Path, with_mlflow: bool = False) -> "Project":
        """A copy with its history, results and what Snakemake knows of them.

        MLflow's store keeps absolute paths: a copy of it can be read, but not be written.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", self.path, target], check=True)  # four times as fast as shutil
        if not with_mlflow:
            for file in target.glob("mlflow.db*"):
                file.unlink()
            shutil.rmtree(target / "mlartifacts", ignore_errors=True)
        return Project(target, self.plugins)

    def clone(self, target: Path) -> "Project":
        """A fresh clone: nothing that git does not hold."""
        self.run("git", "clone", "-q", str(self.path), str(target))
        return Project(target)._named()

    def installed(self) -> "Project":
        """As `make` leaves it after installing, for which the tests have their own environment."""
        for name in ("bin/activate", "ready"):
            file = self.path / ".venv" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return self

    def _named(self) -> "Project":
        self.run("git", "config", "user.email", "tests@example.org")
        self.run("git", "config", "user.name", "tests")
        return self


def checkout(path: Path) -> Project:
    """The project as it stands, in a git repository of its own, with nothing committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).exists():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    project = Project(path)
    project.run("git", "init", "-q")
    return project._named()


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project as it stands, with the tiny parameters, nothing run."""
    project = checkout(tmp_path_factory.mktemp("fresh") / "project")
    project.params(yaml.safe_load((Path(__file__).parent / "tiny.yaml").read_text()))
    project.commit("tiny")
    return project


@pytest.fixture(scope="session")
def finished(fresh: Project, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Project:
    """The tiny grid after a whole run with two cores, made once for all workers. Not to be changed: take a copy."""
    base = tmp_path_factory.getbasetemp()
    # the folder of this session, not of its worker alone
    shared = base if worker_id == "master" else base.parent
    shared_project = Project(shared / "made")
    with FileLock(shared / "made.lock"):
        # a run that failed has none, and no other worker takes it for whole
        if not (shared_project.path / "run.log").exists():
            shutil.rmtree(shared_project.path, ignore_errors=True)
            cores = ("--cores", "2", "--resources", "gpu=1")
            done = fresh.copy(shared_project.path).run(str(BIN / "snakemake"), *cores)
            (shared_project.path / ".git/info/exclude").write_text("run.log\n")
            (shared_project.path / "run.log").write_text(done.stdout + done.stderr)
        return shared_project.copy(
            tmp_path_factory.mktemp("finished") / "project", with_mlflow=True
        )


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A finished project to change."""
    return finished.copy(tmp_path / "project")
