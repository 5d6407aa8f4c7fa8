"""A writer that is killed at any moment leaves a memory as it was before or after, never between."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

WITHOUT = {  # a part that is taken out, and what must be seen then
    # Without a transaction, each statement is committed by itself.
    "Database.change = contextmanager(lambda self: iter([self._get_writer()]))": "damaged",
    # The log of a killed writer is not emptied when the memory is opened.
    "MemoryFile.empty_log = lambda *_, **__: False": "the log of the killed writer is left",
}
PROGRAM = """
import sys
from contextlib import contextmanager
from pathlib import Path
from munkey.memory.database import Database
from munkey.memory.memory_file import MemoryFile
from tests.memory.killing import main
{}
main(2000, 0, Path(sys.argv[1]))  # it ends with the first fault, after some tens
"""


def kill(count: int, seed: int, folder: Path) -> dict[str, int]:
    """Return hits by change, from a process of its own: it forks."""
    folder.mkdir()
    arguments = ["-m", "tests.memory.killing", str(count), str(seed), str(folder)]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout)


def test_thirty_kills_lose_and_resurrect_nothing(folder):
    hits = kill(30, 0, folder)
    assert sum(hits.values()) - hits["acknowledged"] == 30
    assert hits["acknowledged"] > 30


@pytest.mark.parametrize("taken_out", WITHOUT)
def test_kills_notice_when_a_part_is_taken_out(taken_out, folder):
    folder.mkdir()
    command = [sys.executable, "-c", PROGRAM.format(taken_out), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert WITHOUT[taken_out] in done.stderr.splitlines()[-1]


@pytest.mark.soak(long=True)
def test_two_thousand_kills_lose_and_resurrect_nothing(folder):
    hits = kill(2000, 1, folder)
    steps = ("add", "delete", "batch", "request", "purge")
    assert all(hits[step] >= 10 for step in (*steps, "open"))
