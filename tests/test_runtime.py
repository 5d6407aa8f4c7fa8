"""Around a job: its log holds everything it said, its limits are kept, its record says where it came from."""

import json
import os
import platform
import subprocess
import sys

import pytest
import torch
from threadpoolctl import threadpool_info

from munkey import runtime
from munkey.files import read_json
from tests.conftest import needs_gpu

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Put the variables that a job sets back afterwards."""
    for variable in VARIABLES:
        monkeypatch.setenv(variable, "7")


def failing(log):
    with runtime.job(str(log), 1):
        print("so far so good")
        raise ValueError("the reason")


def test_a_job_says_everything_in_its_log(tmp_path, capsys):
    with runtime.job(str(tmp_path / "job.log"), 1):
        print("to stdout")
        print("to stderr", file=sys.stderr)
    assert (tmp_path / "job.log").read_text() == "to stdout\nto stderr\n"
    assert capsys.readouterr() == ("", "")


def test_a_failed_jobs_log_ends_with_the_reason_and_the_job_fails(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        failing(tmp_path / "job.log")
    assert stopped.value.code == 1
    log = (tmp_path / "job.log").read_text()
    assert log.startswith("so far so good\nTraceback")
    assert 'raise ValueError("the reason")' in log
    assert log.endswith("\nValueError: the reason\n")
    assert capsys.readouterr() == ("", "")


def test_a_failed_job_ends_its_process_with_an_error_told_once(tmp_path):
    code = f"from munkey import runtime\nwith runtime.job({str(tmp_path / 'job.log')!r}, 1): raise ValueError('x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_an_interrupted_job_is_not_taken_for_a_failed_one(tmp_path):
    with pytest.raises(KeyboardInterrupt), runtime.job(str(tmp_path / "job.log"), 1):
        raise KeyboardInterrupt


def test_a_job_keeps_to_its_threads(tmp_path):
    before = torch.get_num_threads()
    try:
        with runtime.job(str(tmp_path / "job.log"), 2):
            assert torch.get_num_threads() == 2
            assert {os.environ[variable] for variable in VARIABLES} == {"2"}
            assert {pool["num_threads"] for pool in threadpool_info()} <= {1, 2}
    finally:
        torch.set_num_threads(before)


def test_a_job_without_a_gpu_computes_on_the_cpu():
    assert runtime.device(0) == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_promised_gpu_that_is_not_there_is_an_error():
    with pytest.raises(RuntimeError, match="torch sees none here: set device: cpu"):
        runtime.device(1)


@needs_gpu
def test_a_job_with_a_gpu_computes_on_it():
    assert runtime.device(1) == "cuda"


@pytest.mark.parametrize("items", [range(3), (i for i in range(3))], ids=["sized", "unsized"])
def test_progress_passes_everything_on_and_says_how_far_it_is(capsys, items):
    assert list(runtime.progress(items, "batch", "batches", every_s=0)) == [0, 1, 2]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] in (
        ["batch 1/3", "batch 2/3", "batch 3/3"],
        ["batch 1/?", "batch 2/?", "batch 3/?"],
    )


def test_progress_is_told_at_the_end_even_of_what_is_quick(capsys):
    list(runtime.progress(range(100), "batch", "batches", every_s=1000))
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["batch 100/100"]


def test_a_rules_parameters_are_read_by_name():
    settings = runtime.sections({"train": {"lr": 0.1, "betas": [0.9, 0.99]}, "seed": 3})
    assert settings.train.lr == 0.1
    assert settings.train.betas == [0.9, 0.99]
    assert settings.seed == 3


def test_a_record_holds_times_curves_facts_and_where_they_came_from(tmp_path):
    started = runtime.now()
    history = [{"epoch": 1, "loss": 0.5}]
    runtime.record(str(tmp_path / "r.json"), {"train": {"lr": 0.1}}, "cpu", started, history, unlearn_s=1.5)
    record = read_json(tmp_path / "r.json")
    assert record["started"] == started <= record["ended"]
    assert record["history"] == history
    assert record["settings"] == {"train": {"lr": 0.1}}
    assert record["unlearn_s"] == 1.5
    assert record["provenance"]["versions"]["torch"] == torch.__version__.split("+")[0]
    assert record["provenance"]["device"].endswith(", CPU")


def test_the_digest_of_parameters_depends_on_their_values_and_not_on_their_order():
    def digest(settings):
        return runtime.provenance(settings, "cpu")["params_digest"]

    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


def git(*args):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_is_told_and_whether_tracked_files_were_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert runtime.provenance({}, "cpu")["commit"] == "not a git checkout"
    git("init", "-q")
    (tmp_path / "tracked").write_text("1")
    git("add", "tracked")
    git("commit", "-qm", "one")
    (tmp_path / "untracked").write_text("1")
    head = git("rev-parse", "HEAD")
    assert runtime.provenance({}, "cpu")["commit"] == head
    (tmp_path / "tracked").write_text("2")
    assert runtime.provenance({}, "cpu")["commit"] == f"{head}+changes"


def test_times_are_utc_and_sort_as_text():
    first, second = runtime.now(), runtime.now()
    assert first <= second
    assert first.endswith("+00:00")
    assert json.dumps(first)


def test_a_stopwatch_measures_its_block():
    with runtime.Stopwatch("cpu") as watch:
        assert watch.seconds == 0
    assert watch.seconds > 0


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_kept_for_the_next_tensor():
    """Page faults of allocating, filling and freeing 50 MB twenty times over: far fewer."""
    script = """
import resource, sys, torch
from munkey import runtime
torch.set_num_threads(1)
if sys.argv[1] == "kept":
    runtime.keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.empty(12_500_000).fill_(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    faults = [
        int(subprocess.run([sys.executable, "-c", script, how], capture_output=True, text=True, check=True).stdout)
        for how in ("kept", "returned")
    ]
    assert faults[0] < 0.6 * faults[1]
