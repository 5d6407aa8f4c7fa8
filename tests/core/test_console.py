"""Messages of a job: progress with a rate and the time left, and warnings that reach the terminal too."""

import subprocess
import sys

import pytest

from munkey.core.console import format_duration, pluralize, progress


@pytest.mark.parametrize("items", [range(3), (i for i in range(3))], ids=["sized", "unsized"])
def test_progress_yields_all_items_and_counts_them(capsys, items):
    assert list(progress(items, "batch", "batches", every_s=0)) == [0, 1, 2]
    lines = capsys.readouterr().out.splitlines()
    total = "3" if isinstance(items, range) else "?"
    assert len(lines) == 3
    for number, line in enumerate(lines, start=1):
        assert line.startswith(f"batch {number}/{total}:")
        assert ("s left" in line) == (total == "3")


def test_progress_is_printed_at_the_end_even_if_it_was_quick(capsys):
    list(progress(range(100), "batch", "batches", every_s=1000))
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("batch 100/100:")


def test_progress_prints_nothing_if_the_environment_says_so(capsys, monkeypatch):
    monkeypatch.setenv("MUNKEY_PROGRESS", "0")
    assert list(progress(range(3), "batch", "batches", every_s=0)) == [0, 1, 2]
    assert capsys.readouterr().out == ""


def test_progress_prints_the_rate_and_the_time_left(capsys, monkeypatch):
    moments = iter([0.0, 2.0, 4.0])
    monkeypatch.setattr("time.monotonic", lambda: next(moments))
    list(progress(["a", "b"], "batch", "images", every_s=2, units_per_item=10))
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["batch 1/2: 5.00 images/s, 2 s left", "batch 2/2: 5.00 images/s, 0 s left"]


def test_a_warning_is_written_to_the_log_and_to_the_terminal(tmp_path):
    log = str(tmp_path / "job.log")
    code = f"""
from munkey.core.console import warn
from munkey.experiment.run.job import job
with job({log!r}, 1):
    warn("few samples")
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == ""
    assert process.stderr == "few samples\n"
    assert (tmp_path / "job.log").read_text().startswith("few samples\n")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 samples"), (1, "1 sample"), (2, "2 samples"), (1200, "1,200 samples")],
)
def test_pluralize_writes_a_number_with_its_noun(count, text):
    assert pluralize(count, "sample") == text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (99.4, "99 s"), (100, "2 min"), (5_939, "99 min"),
        (5_990, "1 h 40 min"), (7_510, "2 h 5 min"), (360_000, "100 h 0 min"),
    ],
)  # fmt: skip
def test_format_duration_writes_a_length_of_time(seconds, expected):
    assert format_duration(seconds) == expected
