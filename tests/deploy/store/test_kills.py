"""A writer that is killed at any moment leaves a memory as it was before or after, never between."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

WITHOUT = {  # a part of the recovery that is taken out, and what must be seen then
    "Matrices.truncate = lambda *_: None": "a tail is left",
    (
        "all = Ledger.list_dead_rows; Ledger.list_dead_rows = "
        "lambda self, after=None: all(self)[: None if after is None else 0]"
    ): "not zero",
    "recovery.find_generations = lambda _: set()": "a generation is left",
}
PROGRAM = """
import sys
from pathlib import Path
from munkey.deploy.store import recovery
from munkey.deploy.store.ledger import Ledger
from munkey.deploy.store.matrices import Matrices
from tests.deploy.store.killing import main
{}
main(2000, 0, Path(sys.argv[1]))  # it ends with the first fault, after some hundreds at most
"""


def kills(count: int, seed: int, folder: Path) -> dict[str, int]:
    """Hits by operation, from a process of its own: it forks, and must not hold what the other tests hold."""
    command = [
        sys.executable,
        "-m",
        "tests.deploy.store.killing",
        str(count),
        str(seed),
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout)


def test_forty_kills_lose_and_resurrect_nothing(folder):
    hits = kills(40, 0, folder)
    assert sum(hits.values()) - hits["acknowledged"] >= 40 and hits["acknowledged"] > 40


@pytest.mark.parametrize("taken_out", WITHOUT)
def test_kills_notice_when_a_part_of_the_recovery_is_taken_out(taken_out, folder):
    command = [sys.executable, "-c", PROGRAM.format(taken_out), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and WITHOUT[taken_out] in done.stderr.splitlines()[-1]


@pytest.mark.soak(long=True)
def test_a_thousand_kills_lose_and_resurrect_nothing(folder):
    hits = kills(3200, 1, folder)
    steps = ("add", "delete", "batch", "request", "settle", "purge", "compact")
    assert (
        all(hits[step] >= 10 for step in (*steps, "open", "recovery"))
        and sum(hits[step] for step in steps) >= 1000
    )
