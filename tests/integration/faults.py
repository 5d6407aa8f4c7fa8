"""What goes wrong while a grid runs: processes are killed, a disk is full. And the bytes that must stay the same."""

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import Project

COMPARED = ("data", "keys", "neighbors", "forget", "logits", "models")
TIMED = "record.json"  # holds wall times


def results(project: Project) -> dict[Path, bytes]:
    """The bytes of every result that holds no times."""
    folder = project.path / "results/default"
    files = [path for part in COMPARED for path in (folder / part).rglob("[!.]*") if path.is_file()]
    assert {path.relative_to(folder).parts[0] for path in files} == set(COMPARED)
    return {path.relative_to(folder): path.read_bytes() for path in files if path.name != TIMED}


class Running:
    """A run in the background, as a terminal would start it."""

    def __init__(self, project: Project, **env: str) -> None:
        self.process = project.start("snakemake", "--cores", "2", "--resources", "gpu=1", **env)

    def processes(self) -> dict[str, list[int]]:
        """Process ids by kind. A job is the process that Snakemake started, which may wait for a fork."""
        kinds: dict[str, list[int]] = {"snakemake": [self.process.pid]}
        with contextlib.suppress(psutil.Error):  # what has ended in the meantime
            for child in psutil.Process(self.process.pid).children(recursive=True):
                kinds.setdefault(self._kind(child), []).append(child.pid)
        kinds.pop("", None)
        return kinds

    def _kind(self, child: psutil.Process) -> str:
        line = " ".join(child.cmdline())
        if "fork_server.py" in line:
            return "server" if child.ppid() == self.process.pid else "fork"
        return "job" if ".snakemake/scripts" in line else ""

    def kill_one(self, draw: random.Random, *among: str) -> str:
        """Kill a process of this run while it has jobs; returns its kind, or nothing if the run has ended.

        among: kinds of processes, by default all.
        """
        while self.process.poll() is None:
            kinds = self.processes()
            if "job" in kinds:
                kinds = {kind: kinds[kind] for kind in among or kinds if kind in kinds}
                with contextlib.suppress(ProcessLookupError, IndexError):
                    kind = draw.choice(sorted(kinds))
                    os.kill(draw.choice(kinds[kind]), signal.SIGKILL)
                    return kind
            time.sleep(0.05)
        return ""


@contextlib.contextmanager
def disk(folder: Path, size: str):
    """A file system of this size; skips where only an administrator may mount one."""
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False
    ).returncode:
        pytest.skip("may not mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
