"""What the docs show of a configuration is copied: all of it as it was written, or nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from munkey.core.files import write_text
from tests.conftest import ROOT
from tools.copy_results import keep, shown

PAGE = """
<!-- results/mine/tables/main.md -->
old
<!-- end -->
![A figure: with words (and more)](docs/results/mine/figures/a.png) and ![](../results/other/b.png)
`results/mine/metrics.csv`, `<!-- results/mine/never.md -->`, [a linked table](results/mine/tables/ranks.md)
"""

MINE = [f"results/mine/{name}" for name in ("figures/a.png", "tables/main.md", "tables/ranks.md")]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("<!-- results/mine/tables/main.md -->\n<!-- end -->\n")
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    write_text("results/mine/tables/main.md", "a table\n")
    write_text("results/mine/tables/ranks.md", "ranks\n")
    write_text("results/mine/figures/a.png", "a picture")
    return tmp_path


def test_pages_show_what_stands_under_a_marker_or_is_linked():
    assert shown([PAGE, PAGE]) == [*MINE, "results/other/b.png"]


def test_what_is_shown_is_copied_and_nothing_else(project: Path):
    assert keep("mine") == MINE
    copies = {
        path.relative_to(project): path.read_text()
        for path in (project / "docs/results").rglob("*.*")
    }
    assert copies == {
        Path("docs/results/mine/figures/a.png"): "a picture",
        Path("docs/results/mine/tables/main.md"): "a table\n",
        Path("docs/results/mine/tables/ranks.md"): "ranks\n",
    }


def test_where_a_file_is_missing_nothing_is_copied(project: Path):
    (project / "results/mine/figures/a.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"nothing was kept.*: results/mine/figures/a\.png"):
        keep("mine")
    assert not (project / "docs/results").exists()


def test_a_damaged_file_is_not_kept(project: Path):
    Path("results/mine/tables/main.md").write_text("edited")
    with pytest.raises(ValueError, match="damaged"):
        keep("mine")
    assert not (project / "docs/results/mine/tables").exists()


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("mine", 0, "kept docs/results/mine/figures/a.png"),
        ("other", 1, "b.png"),
        ("none", 0, "show nothing of 'none'"),
    ],
)
def test_the_command_says_what_it_did(project: Path, name: str, code: int, words: str):
    command = [sys.executable, ROOT / "tools/copy_results.py", name]
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=project, env=os.environ | paths
    )
    assert (
        done.returncode == code
        and words in done.stdout + done.stderr
        and "Traceback" not in done.stderr
    )
