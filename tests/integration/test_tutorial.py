"""docs/tutorial.md: its commands run as they stand and print the lines of the page."""

import re
import time
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT, checkout

PAGE = (ROOT / "docs/tutorial.md").read_text()
# commands, and what they print
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def shape(line: str) -> str:
    """A line without what differs from run to run: folders, hashes, numbers, and how a table is aligned."""
    line = re.sub(r"/\S+(?=/pictures/)", "FOLDER", line)
    line = re.sub(r"\b[0-9a-f]{12,}\b", "HASH", line)
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,:]*", "N", re.sub(r"-{3,}", "---", line))).strip()


@pytest.mark.soak(long=True)
def test_the_commands_of_the_tutorial_run_and_print_the_lines_of_the_page(tmp_path: Path) -> None:
    project = checkout(tmp_path / "project").installed()
    project.commit("as it stands")
    start = time.monotonic()
    printed = set()
    for kind, text in BLOCKS:
        if kind == "sh":
            done = project.run("bash", "-euo", "pipefail", "-c", text, timeout=3600)
            printed = set(map(shape, done.stdout.splitlines()))
        else:
            assert [line for line in text.splitlines() if shape(line) not in printed] == []
    print(
        f"{(time.monotonic() - start) / 60:.1f} minutes, of which the page promises ten on two free cores"
    )
    assert [kind for kind, _ in BLOCKS].count("text") == 6  # what the page shows is compared
    assert "Deletion certificate" in (project.path / "certificate.html").read_text()
