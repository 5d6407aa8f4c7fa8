"""A writer that is killed at any moment leaves a memory as it was before or after, never between."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def kills(count: int, seed: int, folder: Path) -> dict[str, int]:
    """Hits by operation, from a process of its own: it forks, and must not hold what the other tests hold."""
    command = [sys.executable, "-m", "tests.memory.store.killing", str(count), str(seed), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return json.loads(done.stdout)


def test_forty_kills_lose_and_resurrect_nothing(folder):
    hits = kills(40, 0, folder)
    assert sum(hits.values()) - hits["acknowledged"] >= 40 and hits["acknowledged"] > 40


@pytest.mark.soak
def test_a_thousand_kills_lose_and_resurrect_nothing(folder):
    hits = kills(1200, 1, folder)
    assert all(hits[step] >= 10 for step in ("open", "add", "delete", "batch", "purge", "compact", "recovery"))
