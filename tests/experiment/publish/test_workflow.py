"""Snakemake as a command: where it may run, and how it is stopped."""

import os
import signal
import subprocess
import sys
import time

import pytest

from munkey.experiment.publish import workflow
from munkey.experiment.publish.workflow import WorkflowFailedError, require_clone, run_snakemake
from tests.conftest import ROOT

SNAKEFILE = """
rule sleep:
    output: "slept"
    shell: "echo $$ > pid; exec sleep 300"
"""


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder that passes for a clone, with a job that takes long."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "workflow/rules").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_folder_of_an_unpacked_run_is_no_clone(clone):
    require_clone()
    (clone / "workflow/rules").rmdir()
    with pytest.raises(FileNotFoundError, match=f"{clone}: is not a clone"):
        require_clone()


def test_a_missing_snakemake_is_named_before_anything_is_read(clone, monkeypatch):
    monkeypatch.setattr(workflow, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="snakemake"):
        run_snakemake([], clone)


def test_a_failure_shows_what_snakemake_printed(clone):
    with pytest.raises(WorkflowFailedError, match=r"(?s)failed in .*rule to produce nothing"):
        run_snakemake(["--cores", "1", "--", "nothing"], clone)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_ended_command_ends_its_jobs(clone, number):
    code = (
        "import signal\n"
        "from pathlib import Path\n"
        "from munkey.experiment.publish.workflow import run_snakemake\n"
        # Tests may be run with `&`, which lets their commands ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "run_snakemake(['--cores', '1', '--', 'slept'], Path())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE
    )
    while not (clone / "pid").exists() or not (clone / "pid").read_text().strip():
        assert command.poll() is None
        time.sleep(0.1)
    job = int((clone / "pid").read_text())
    os.kill(job, 0)  # it runs
    command.send_signal(number)
    _, errors = command.communicate(timeout=60)
    assert command.returncode
    assert (
        b"KeyboardInterrupt" if number == signal.SIGINT else b"the workflow failed in"
    ) in errors
    with pytest.raises(ProcessLookupError):
        os.kill(job, 0)
