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
    printed, took = (tmp_path / "job.log").read_text().rsplit("\n", 2)[:2]
    assert printed == "to stdout\nto stderr"
    assert re.fullmatch(
        r"This job took 0\.\d\d s, [\d.]+ s of CPU, [\d.]+ MiB of memory at most", took
    )
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
    found = {"shop": Package(path.parent, "shop 1.0")}
    monkeypatch.setattr(module, "find_plugin_packages", lambda: found)
    with pytest.raises(SystemExit), job(str(tmp_path / "job.log"), 1):
        runpy.run_path(str(path))["unlearn"]()
    failed = [FailedJob("unlearn: mine", str(tmp_path / "job.log"))]
    assert f"in the plug-in shop 1.0 ({path}, line 3)" in describe_failures(failed)


@pytest.mark.parametrize(
    "stop", [breakpoint, lambda: pdb.Pdb(nosigint=True).set_trace()], ids=["breakpoint", "pdb"]
)
def test_a_debugger_that_nobody_sees_fails_the_job_at_once(tmp_path, stop):
    before = sys.breakpointhook, sys.stdin
    with (
        pytest.raises(SystemExit),
        job(str(tmp_path / "job.log"), 1, ["results/x.csv", "results/y.csv"]),
    ):
        stop()
    log = (tmp_path / "job.log").read_text()
    if stop is breakpoint:
        assert (
            "RuntimeError: a breakpoint, but there is no terminal here: `munkey job results/x.csv` stops at it"
            in log
        )
    assert "\nThis job failed: " in log
    assert (sys.breakpointhook, sys.stdin) == before and read_seconds(tmp_path / "job.log") is None


def test_the_job_that_munkey_job_asks_for_prints_to_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(IN_TERMINAL, "results/y.csv")
    with job(str(tmp_path / "job.log"), 1, ["results/x.csv", "results/y.csv"]):
        print("hello")
    assert (
        capsys.readouterr().out.startswith("hello\nThis job took ")
        and not (tmp_path / "job.log").exists()
    )
    with job(str(tmp_path / "job.log"), 1, ["results/z.csv"]):
        print("hello")
    assert read_seconds(tmp_path / "job.log") == pytest.approx(0, abs=1)


@pytest.mark.parametrize("asked", [True, False])
def test_a_debugger_starts_where_a_job_in_the_terminal_fails_if_that_was_asked_for(
    tmp_path, monkeypatch, capsys, asked
):
    started = []
    monkeypatch.setattr(pdb, "post_mortem", started.append)
    monkeypatch.setenv(IN_TERMINAL, "results/x.csv")
    monkeypatch.setenv(POST_MORTEM, "1") if asked else monkeypatch.delenv(
        POST_MORTEM, raising=False
    )
    with pytest.raises(SystemExit), job(str(tmp_path / "job.log"), 1, ["results/x.csv"]):
        raise ValueError("the reason")
    printed = capsys.readouterr().err
    assert (
        len(started) == asked
        and "Traceback" in printed
        and printed.endswith("ValueError: the reason\n")
    )


def test_leaving_the_debugger_ends_the_job_without_a_traceback(tmp_path, monkeypatch):
    monkeypatch.setenv(IN_TERMINAL, "results/x.csv")
    with (
        pytest.raises(SystemExit, match="The job ended with the debugger"),
        job(str(tmp_path / "job.log"), 1, ["results/x.csv"]),
    ):
        raise bdb.BdbQuit


def test_a_run_ends_with_what_failed_and_why_and_what_to_do(tmp_path):
    assert describe_failures([]).startswith(
        "The run was stopped. To continue, run the same command again"
    )
    failing_job(tmp_path / "a.log")
    (tmp_path / "killed.log").write_text("epoch 1")
    failed = [
        FailedJob("train vit", str(tmp_path / "a.log")),
        FailedJob("train munkey", str(tmp_path / "killed.log")),
    ]
    assert describe_failures(failed).splitlines() == [
        "2 jobs failed:",
        "train vit",
        "  ValueError: the reason",
        f"  log: {tmp_path / 'a.log'}",
        "train munkey",
        f"  {KILLED}",
        f"  log: {tmp_path / 'killed.log'}",
        "Fix the above, then run the same command again; finished work is kept.",
    ]
    # the other was stopped
    assert describe_failures(failed, stopped=True).splitlines()[:2] == [
        "1 job failed:",
        "train vit",
    ]
    assert describe_failures(failed[1:], stopped=True) == describe_failures([])


def test_a_run_with_many_long_faults_ends_with_30_lines_at_most(tmp_path):
    for number in range(9):
        failing_job(
            tmp_path / f"{number}.log", "\n".join(f"picture {n} is broken" for n in range(99))
        )
    for count in range(1, 10):
        words = describe_failures(
            FailedJob("data", str(tmp_path / f"{number}.log")) for number in range(count)
        )
        assert len(words.splitlines()) <= 30
        assert "picture 0 is broken" in words and "more lines in its log" in words
        assert (f"... and {count - 3} more" in words) == (count > 3)


def test_an_interrupted_job_is_not_taken_for_a_failed_one(tmp_path):
    with pytest.raises(KeyboardInterrupt), job(str(tmp_path / "job.log"), 1):
        raise KeyboardInterrupt


def test_a_job_keeps_to_its_threads(tmp_path):
    before = torch.get_num_threads()
    try:
        with job(str(tmp_path / "job.log"), 2):
            with ThreadPoolExecutor(1) as other:
                assert torch.get_num_threads() == other.submit(torch.get_num_threads).result() == 2
            assert {os.environ[variable] for variable in VARIABLES} == {"2"}
            assert {pool["num_threads"] for pool in threadpool_info()} <= {1, 2}
    finally:
        torch.set_num_threads(before)


def test_a_record_holds_times_curves_facts_and_provenance(tmp_path):
    started = now()
    history = [{"epoch": 1, "loss": 0.5}]
    settings = {"network": NetworkName(name="vit"), "inference": Section()}
    write_record(tmp_path / "r.json", settings, "cpu", started, history, {"unlearn_s": 1.5})
    written = read_json(tmp_path / "r.json")
    assert set(written) == {
        "started", "ended", "settings", "history", "unlearn_s", "max_rss_mb", "cpu_s", "provenance",
    }  # fmt: skip
    assert written["started"] == started <= written["ended"] and started.endswith("+00:00")
    assert written["history"] == history
    assert written["settings"] == {"network": {"name": "vit"}, "inference": {}}
    assert written["unlearn_s"] == 1.5
    assert written["provenance"]["versions"]["torch"] == torch.__version__.split("+")[0]
    assert written["provenance"]["device"].endswith(", CPU")


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere the system includes what a process was before"
)
def test_what_a_job_used_is_its_own_and_not_that_of_whoever_started_it():
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
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    start, held, cpu = map(float, printed.split())
    assert start < 200 and 190 < held < 220 and 0.9 <= cpu < 60


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("linux", 2**10)])
def test_where_no_file_tells_the_memory_the_system_does_in_its_own_unit(
    platform, unit, tmp_path, monkeypatch
):
    peak = SimpleNamespace(ru_maxrss=300 * 2**20 // unit)
    monkeypatch.setattr(resource, "getrusage", lambda _: peak)
    monkeypatch.setattr(record, "Path", lambda _: tmp_path / "none")
    monkeypatch.setattr(sys, "platform", platform)
    assert record.measure_usage()["max_rss_mb"] == 300


def test_the_c_library_is_asked_by_its_own_numbers_and_may_refuse_or_be_another(monkeypatch):
    asked = []
    library = SimpleNamespace(mallopt=lambda *option: asked.append(option))
    monkeypatch.setattr(module.ctypes, "CDLL", lambda _: library)
    module.keep_freed_memory()
    assert asked == [(-1, 2**31 - 1), (-4, 0)]  # M_TRIM_THRESHOLD and M_MMAP_MAX of <malloc.h>
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
    faults = [
        int(
            subprocess.run(
                [sys.executable, "-c", script, how], capture_output=True, text=True, check=True
            ).stdout
        )
        for how in ("kept", "returned")
    ]
    assert faults[0] < 0.6 * faults[1]
