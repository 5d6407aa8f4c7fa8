"""docs/tutorial.md: its commands run as they stand, print what the page says, and fit into its ten minutes."""

import re
import resource
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, checkout

PAGE = (ROOT / "docs/tutorial.md").read_text()
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)  # commands, and what they print
PROMISED_S = 2 * 600  # ten minutes of two cores; the time of the processors, so that other work does not count


def shape(line: str) -> str:
    """A line without what differs from run to run: folders, hashes, numbers, and how a table is aligned."""
    line = re.sub(r"/\S+(?=/pictures/)", "FOLDER", line)
    line = re.sub(r"\b[0-9a-f]{12,}\b", "HASH", line)
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,:]*", "N", re.sub(r"-{3,}", "---", line))).strip()


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.soak
def test_the_tutorial_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    project = checkout(tmp_path / "project").installed()
    project.commit("as it stands")
    start, printed = processor_s(), set()
    for kind, text in BLOCKS:
        if kind == "sh":
            done = project.run("bash", "-euo", "pipefail", "-c", text, timeout=3600)
            printed = set(map(shape, done.stdout.splitlines()))
        else:
            assert [line for line in text.splitlines() if shape(line) not in printed] == []
    assert processor_s() - start < PROMISED_S
    assert [kind for kind, _ in BLOCKS].count("text") == 6  # what the page shows is compared
    assert "Deletion certificate" in (project.path / "receipt.html").read_text()
