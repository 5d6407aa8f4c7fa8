"""A job writes everything it prints to its log, keeps to its limits, and records what it did."""

import bdb
import os
import pdb
import platform
import re
import resource
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from threadpoolctl import threadpool_info

from munkey.core.files import read_json
from munkey.core.plugins import Package
from munkey.experiment.outcome import KILLED, FailedJob, describe_failures
from munkey.experiment.run import job as module
from munkey.experiment.run import record
from munkey.experiment.run.job import (
    FAILED,
    IN_TERMINAL,
    POST_MORTEM,
    job,
    read_seconds,
)
from munkey.experiment.run.record import now, write_record
from munkey.settings import NetworkName, Section

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Restore the variables that a job sets."""
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "7")


def failing(log, reason="the reason"):
    with job(str(log), 1):
        print("so far so good")
        raise ValueError(reason)


def failing_job(log, reason="the reason"):
    with pytest.raises(SystemExit):
        failing(log, reason)


def test_a_job_prints_to_its_log(tmp_path, capsys):
    with job(str(tmp_path / "job.log"), 1):
        print("to stdout")
        print("to stderr", file=sys.stderr)
    *printed, usage = (tmp_path / "job.log").read_text().splitlines()
    assert printed == ["to stdout", "to stderr"]
    assert re.fullmatch(r"This job took [\d.]+ s, [\d.]+ s of CPU, [\d.]+ MiB .*", usage)
    assert capsys.readouterr() == ("", "")


def test_the_log_of_a_failed_job_ends_with_the_reason_and_the_job_fails(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        failing(tmp_path / "job.log")
    assert stopped.value.code == 1
    log = (tmp_path / "job.log").read_text()
    assert log.startswith("so far so good\nTraceback")
    assert "raise ValueError(reason)" in log
    assert log.endswith("\nThis job failed: ValueError: the reason\n")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("code", [0, None, "over"])
def test_a_job_that_calls_sys_exit_fails_and_names_where(tmp_path, code):
    """The failure: with sys.exit(0), Snakemake only said that files were missing."""
    with pytest.raises(SystemExit) as stopped, job(str(tmp_path / "job.log"), 1):
        sys.exit(code)
    assert stopped.value.code == 1
    reason = (tmp_path / "job.log").read_text().partition(FAILED)[2]
    assert re.match(rf"sys.exit\({code!r}\) was called in \S*test_job.py, line \d+\. ", reason)


def test_the_failure_of_a_plug_in_names_it(tmp_path, monkeypatch):
    """Also if it calls a function of munkey, which then fails."""
    path = tmp_path / "shop" / "mine.py"
    path.parent.mkdir()
    path.write_text(
        "def unlearn():\n    from munkey.unlearn.contract import METHODS\n    METHODS['none']\n"
    )
    packages = {"shop": Package(path.parent, "shop 1.0")}
    monkeypatch.setattr(module, "find_plugin_packages", lambda: packages)
    with pytest.raises(SystemExit), job(str(tmp_path / "job.log"), 1):
        runpy.run_path(str(path))["unlearn"]()
    failed = [FailedJob("unlearn: mine", str(tmp_path / "job.log"))]
    assert f"in the plug-in shop 1.0 ({path}, line 3)" in describe_failures(failed)


@pytest.mark.parametrize(
    "stop", [breakpoint, lambda: pdb.Pdb(nosigint=True).set_trace()], ids=["breakpoint", "pdb"]
)
def test_a_debugger_without_a_terminal_fails_the_job_at_once(tmp_path, stop):
    before = sys.breakpointhook, sys.stdin
    with (
        pytest.raises(SystemExit),
        job(str(tmp_path / "job.log"), 1, ["results/x.csv", "results/y.csv"]),
    ):
        stop()
    log = (tmp_path / "job.log").read_text()
    if stop is breakpoint:
        assert "`munkey job results/x.csv` stops at it" in log
    assert "\nThis job failed: " in log
    assert (sys.breakpointhook, sys.stdin) == before
    assert read_seconds(tmp_path / "job.log") is None


def test_the_job_of_munkey_job_prints_to_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(IN_TERMINAL, "results/y.csv")
    with job(str(tmp_path / "job.log"), 1, ["results/x.csv", "results/y.csv"]):
        print("hello")
    assert capsys.readouterr().out.startswith("hello\nThis job took ")
    assert not (tmp_path / "job.log").exists()
    with job(str(tmp_path / "job.log"), 1, ["results/z.csv"]):
        print("hello")
    assert read_seconds(tmp_path / "job.log") == pytest.approx(0, abs=1)


@pytest.mark.parametrize("requested", [True, False])
def test_a_debugger_starts_at_the_failure_of_a_job_in_the_terminal_if_it_was_requested(
    tmp_path, monkeypatch, capsys, requested
):
    started = []
    monkeypatch.setattr(pdb, "post_mortem", started.append)
    monkeypatch.setenv(IN_TERMINAL, "results/x.csv")
    monkeypatch.setenv(POST_MORTEM, "1")
    if not requested:
        monkeypatch.delenv(POST_MORTEM)
    with pytest.raises(SystemExit), job(str(tmp_path / "job.log"), 1, ["results/x.csv"]):
        raise ValueError("the reason")
    printed = capsys.readouterr().err
    assert len(started) == requested
    assert "Traceback" in printed
    assert printed.endswith("ValueError: the reason\n")


def test_leaving_the_debugger_ends_the_job_without_a_traceback(tmp_path, monkeypatch):
    monkeypatch.setenv(IN_TERMINAL, "results/x.csv")
    with (
        pytest.raises(SystemExit, match="The job ended with the debugger"),
        job(str(tmp_path / "job.log"), 1, ["results/x.csv"]),
    ):
        raise bdb.BdbQuit


def test_a_run_ends_with_its_failed_jobs_their_reasons_and_the_next_step(tmp_path):
    assert describe_failures([]).startswith("The run was stopped.")
    failing_job(tmp_path / "a.log")
    (tmp_path / "killed.log").write_text("epoch 1")
    failed = [
        FailedJob("train vit", str(tmp_path / "a.log")),
        FailedJob("train munkey", str(tmp_path / "killed.log")),
    ]
    title, *jobs, next_step = describe_failures(failed).splitlines()
    assert title.startswith("2 jobs")
    assert jobs == [
        "train vit",
        "  ValueError: the reason",
        f"  log: {tmp_path / 'a.log'}",
        "train munkey",
        f"  {KILLED}",
        f"  log: {tmp_path / 'killed.log'}",
    ]
    assert "run the same command again" in next_step
    # the other was stopped
    assert describe_failures(failed, stopped=True).splitlines()[:2] == [
        "1 job failed:",
        "train vit",
    ]
    assert describe_failures(failed[1:], stopped=True) == describe_failures([])


def test_a_run_with_many_long_faults_ends_with_30_lines_at_most(tmp_path):
    reason = "\n".join(f"picture {number} is broken" for number in range(99))
    failed = []
    for number in range(9):
        log = tmp_path / f"{number}.log"
        failing_job(log, reason)
        failed.append(FailedJob("data", str(log)))
        count = number + 1
        words = describe_failures(failed)
        assert len(words.splitlines()) <= 30
        assert "picture 0 is broken" in words
        assert "more lines in its log" in words
        assert (f"... and {count - 3} more" in words) == (count > 3)


def test_an_interrupt_passes_through_a_job(tmp_path):
    with pytest.raises(KeyboardInterrupt), job(str(tmp_path / "job.log"), 1):
        raise KeyboardInterrupt


def test_a_job_keeps_to_its_threads(tmp_path):
    before = torch.get_num_threads()
    try:
        with job(str(tmp_path / "job.log"), 2):
            with ThreadPoolExecutor(1) as other:
                assert torch.get_num_threads() == 2
                assert other.submit(torch.get_num_threads).result() == 2
            for variable in VARIABLES:
                assert os.environ[variable] == "2"
            assert {pool["num_threads"] for pool in threadpool_info()} <= {1, 2}
    finally:
        torch.set_num_threads(before)


def test_a_record_holds_times_curves_facts_and_provenance(tmp_path):
    start_time = now()
    history = [{"epoch": 1, "loss": 0.5}]
    settings = {"network": NetworkName(name="vit"), "inference": Section()}
    write_record(tmp_path / "r.json", settings, "cpu", start_time, history, {"unlearn_s": 1.5})
    content = read_json(tmp_path / "r.json")
    assert set(content) == {
        "started", "ended", "settings", "history", "unlearn_s", "max_rss_mb", "cpu_s", "provenance",
    }  # fmt: skip
    assert content["started"] == start_time
    assert start_time <= content["ended"]
    assert start_time.endswith("+00:00")
    assert content["history"] == history
    assert content["settings"] == {"network": {"name": "vit"}, "inference": {}}
    assert content["unlearn_s"] == 1.5
    assert content["provenance"]["versions"]["torch"] == torch.__version__.split("+")[0]
    assert content["provenance"]["device"].endswith(", CPU")


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere the system includes what a process was before"
)
def test_the_usage_of_a_job_is_its_own_and_not_that_of_the_process_that_started_it():
    ballast = b"1" * 400_000_000  # noqa: F841  # what this process has is not the child's
    script = """
import time
from munkey.experiment.run.record import measure_usage
before = measure_usage()
held = b"1" * 200 * 2**20
while time.process_time() < 1.0: pass
after = measure_usage()
print(before["max_rss_mb"], after["max_rss_mb"] - before["max_rss_mb"], after["cpu_s"])
"""
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    start_mb, grown_mb, cpu_s = map(float, process.stdout.split())
    assert start_mb < 200
    assert 190 < grown_mb < 220
    assert 0.9 <= cpu_s < 60


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("linux", 2**10)])
def test_without_a_file_of_memory_use_it_is_that_of_the_system_in_its_unit(
    platform, unit, tmp_path, monkeypatch
):
    peak = SimpleNamespace(ru_maxrss=300 * 2**20 // unit)
    monkeypatch.setattr(resource, "getrusage", lambda _: peak)
    monkeypatch.setattr(record, "Path", lambda _: tmp_path / "none")
    monkeypatch.setattr(sys, "platform", platform)
    assert record.measure_usage()["max_rss_mb"] == 300


def test_the_c_library_gets_the_numbers_of_its_options_and_may_lack_the_function(monkeypatch):
    options = []
    library = SimpleNamespace(mallopt=lambda *option: options.append(option))
    monkeypatch.setattr(module.ctypes, "CDLL", lambda _: library)
    module.keep_freed_memory()
    assert options == [(-1, 2**31 - 1), (-4, 0)]  # M_TRIM_THRESHOLD and M_MMAP_MAX of <malloc.h>
    del library.mallopt
    module.keep_freed_memory()


@pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="needs glibc"
)
def test_freed_memory_is_kept_for_the_next_tensor():
    """Allocating, filling and freeing 50 MB twenty times causes far fewer page faults."""
    script = """
import resource, sys, torch
from munkey.experiment.run.job import keep_freed_memory
torch.set_num_threads(1)
if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.empty(12_500_000).fill_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    page_faults = {}
    for mode in ("kept", "returned"):
        process = subprocess.run(
            [sys.executable, "-c", script, mode], capture_output=True, text=True, check=True
        )
        page_faults[mode] = int(process.stdout)
    assert page_faults["kept"] < 0.6 * page_faults["returned"]
