"""The tables of the docs are those of the registries, and of the results that were kept."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools.copy_results import shown
from tools.docs_tables import TABLES, filled, kept, put

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/gallery").glob("*.md")),
]
# a line of results
MEASURED = re.compile(r"^(?=\|).*(?:\d ± \d|\| *[+\u2212-]?\**\d+\.\d).*$", re.MULTILINE)
MADE = re.compile(r"^<!-- .+? -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
# what a command said; other tests compare it
PRINTED = re.compile(r"^```text$.*?^```$", re.MULTILINE | re.DOTALL)
BY_HAND = re.compile(r"^<!-- by hand: .+ -->\n(?:\|.*\n)+", re.MULTILINE)  # then why, and the table


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that keeps one table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/results/mine").mkdir(parents=True)
    (tmp_path / "docs/results/mine/a.md").write_text(
        "### One: n = 3\n\n| a |\n|---|\n\n### Two\n\n| b |\n|---|\n"
    )
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_have_not_drifted_from_what_they_are_made_of(
    page: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(ROOT)
    assert filled(page.read_text()) == page.read_text(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_of_results_is_pasted(page: Path):
    outside = MADE.sub("", BY_HAND.sub("", PRINTED.sub("", page.read_text())))
    assert MEASURED.findall(outside) == [], "keep it, and put its marker there: docs/extending.md"


@pytest.mark.parametrize(
    "line", ["| a | 0.3 ± 0.1 |", "| 12.5 |", "| a | \u22120.1 (b) |", "| **1.2 s** |"]
)
def test_a_pasted_table_is_found(line: str):
    table = f"| x |\n|---|\n{line}\n"
    assert MEASURED.findall(MADE.sub("", table)) == [line]
    assert not MEASURED.search(MADE.sub("", f"<!-- made -->\n{table}<!-- end -->\n"))
    assert not MEASURED.search(BY_HAND.sub("", f"<!-- by hand: why -->\n{table}"))
    assert MEASURED.search(BY_HAND.sub("", f"<!-- by hand: why -->\n\n{table}"))


def test_a_marker_may_name_columns(project: Path):
    table = "Prose.\n\n| Method | FA | Avg Gap |\n|:---|---:|:---|\n| LDA | 90 | 0.00 |\n"
    (project / "docs/results/mine/b.md").write_text(table)
    marker = "<!-- results/mine/b.md: Avg Gap, Method -->"
    page = filled(f"{marker}\n<!-- end -->\n")
    assert (
        page == f"{marker}\n| Avg Gap | Method |\n| :--- | :--- |\n| 0.00 | LDA |\n<!-- end -->\n"
    )
    assert shown([page]) == ["results/mine/b.md"]
    with pytest.raises(ValueError, match="Seconds"):
        filled("<!-- results/mine/b.md: Seconds -->\n<!-- end -->\n")


def test_what_is_kept_is_shown():
    pages = [*PAGES, *(ROOT / "docs/methods").glob("*.md")]
    markers = {name for name in shown(page.read_text() for page in pages) if name.endswith(".md")}
    assert markers == {
        str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs/results").rglob("*.md")
    }
    assert any(MEASURED.search((ROOT / "docs" / name).read_text()) for name in markers)


def test_every_table_stands_on_a_page():
    markers = {
        name for page in PAGES for name in TABLES if f"\n<!-- {name} -->\n" in page.read_text()
    }
    assert markers == set(TABLES)


def test_a_table_replaces_what_stands_between_its_markers_and_nothing_else():
    text = "a\n<!-- one -->\nold\nold\n<!-- end -->\nb\n<!-- two -->\nold\n<!-- end -->\n"
    expected = "a\n<!-- one -->\n| \\1 |\n<!-- end -->\nb\n<!-- two -->\nold\n<!-- end -->\n"
    assert put(text, "one", "| \\1 |") == expected
    assert put(text, "three", "new") == text


def test_kept_tables_have_their_titles_as_captions(project: Path):
    text = "`<!-- results/mine/b.md -->`\n<!-- results/mine/a.md -->\nold\n<!-- end -->\n"
    shown = "*One: n = 3*\n\n| a |\n|---|\n\n*Two*\n\n| b |\n|---|"
    assert kept("results/mine/a.md") == shown
    assert filled(text) == text.replace("old", shown)


def test_a_table_that_is_not_kept_says_how_to_keep_it(project: Path):
    with pytest.raises(
        FileNotFoundError,
        match=r"docs/results/mine/b\.md: missing; `python -m tools.copy_results mine`",
    ):
        filled("<!-- results/mine/b.md -->\n<!-- end -->\n")


def test_pages_are_written_from_the_command_line(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("<!-- encoders -->\n<!-- end -->\n")
    subprocess.run([sys.executable, "-m", "tools.docs_tables", page], check=True, cwd=ROOT)
    assert page.read_text() == f"<!-- encoders -->\n{TABLES['encoders']()}\n<!-- end -->\n"
