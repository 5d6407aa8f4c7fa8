"""The tables of the docs are those of the registries, and of the results that were kept."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from munkey.report.tables.audits import LEFT
from tests.conftest import ROOT
from tools.copy_results import shown
from tools.docs_tables import TABLES, filled, kept, put, short

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MEASURED = re.compile(r"^(?=\|).*(?:\d ± \d|\| *[+\u2212-]?\**\d+\.\d).*$", re.MULTILINE)  # a line of results
MADE = re.compile(r"^<!-- .+? -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^```text$.*?^```$", re.MULTILINE | re.DOTALL)  # what a command said; other tests compare it
BY_HAND = re.compile(r"^<!-- by hand: .+ -->\n(?:\|.*\n)+", re.MULTILINE)  # then why, and the table


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that keeps one table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/results/mine").mkdir(parents=True)
    (tmp_path / "docs/results/mine/a.md").write_text("### One: n = 3\n\n| a |\n|---|\n\n### Two\n\n| b |\n|---|\n")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_have_not_drifted_from_what_they_are_made_of(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    assert filled(page.read_text()) == page.read_text(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_table_of_results_is_pasted(page: Path):
    outside = MADE.sub("", BY_HAND.sub("", PRINTED.sub("", page.read_text())))
    assert MEASURED.findall(outside) == [], "keep it, and put its marker there: docs/extending.md"


@pytest.mark.parametrize("line", ["| a | 0.3 ± 0.1 |", "| 12.5 |", "| a | \u22120.1 (b) |", "| **1.2 s** |"])
def test_a_pasted_table_is_found(line: str):
    table = f"| x |\n|---|\n{line}\n"
    assert MEASURED.findall(MADE.sub("", table)) == [line]
    assert not MEASURED.search(MADE.sub("", f"<!-- made -->\n{table}<!-- end -->\n"))
    assert not MEASURED.search(BY_HAND.sub("", f"<!-- by hand: why -->\n{table}"))
    assert MEASURED.search(BY_HAND.sub("", f"<!-- by hand: why -->\n\n{table}"))


def test_what_is_kept_is_shown():
    markers = {name for name in shown(page.read_text() for page in PAGES) if name.endswith(".md")}
    assert markers == {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs/results").rglob("*.md")}
    assert any(MEASURED.search((ROOT / "docs" / name).read_text()) for name in markers)


def test_every_table_stands_on_a_page():
    markers = {name for page in PAGES for name in TABLES if f"\n<!-- {name} -->\n" in page.read_text()}
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
        FileNotFoundError, match=r"docs/results/mine/b\.md: missing; `python -m tools.copy_results mine`"
    ):
        filled("<!-- results/mine/b.md -->\n<!-- end -->\n")


MAIN = """### digits: n = 2; bold where it is lowest

| Method | TA @10 % | Avg Gap @10 % | TA @2 % | Avg Gap @2 % |
|:--|:--|:--|:--|:--|
| Original (M) | 98.00 ± 0.10 | 3.00 ± 1.00 | 97.00 | 2.00 |
| SCRUB | 90.00 ± 0.10 | **1.00 ± 0.50** | 97.00 | **1.00** |
| MUNKEY | 96.00 ± 0.10 | <u>2.00 ± 0.50</u> | 97.00 | 2.00 |

Probably underfitted.

### others: n = 2

| Method | TA @10 % | Avg Gap @10 % |
|:--|:--|:--|
| MUNKEY | 12.00 | 9.00 |
"""
AUDIT = """### digits: 3 pairs of models

| Model, and what was done | left [%] |
|:--|:--|
| MUNKEY, nothing done | 100.0 |
| MUNKEY | 4.0 [1.0, 7.0] |
| MUNKEY, image alone | 9.0 [1.0, 7.0] |
"""
RUNTIME = """| Data set | Forget | Method | Unlearn [s] |
|:--|:--|:--|:--|
| digits | 10 % | Original (M) | – |
| digits | 10 % | SCRUB | 5.7397 ± 1.0050 |
| digits | 10 % | MUNKEY | 0.0169 |
| digits | 2 % | SCRUB | 7.0000 |
| digits | 2 % | MUNKEY | 7.0000 |
| others | 10 % | MUNKEY | 8.0000 |
"""


def test_the_short_table_has_the_first_data_set_at_its_largest_rate(project: Path):
    tables = project / "docs/results/mine/tables"
    tables.mkdir()
    (tables / "main.md").write_text(MAIN)
    (tables / "runtime.md").write_text(RUNTIME)
    audit = project / "docs/results/audited/audit/digits"
    audit.mkdir(parents=True)
    (audit / "table.md").write_text(AUDIT)
    expected = [
        f"*Numbers, 10 % forgotten: n = 2; left: {LEFT}*",
        "",
        "| Method | left [%] | Test accuracy | Avg Gap | Seconds | Needs the data? |",
        "|---|---|---|---|---|---|",
        "| Original (M) | 100.0 | 98.00 ± 0.10 | 3.00 ± 1.00 | – | – |",
        "| SCRUB | – | 90.00 ± 0.10 | 1.00 ± 0.50 | 5.7 | forget + retain + val |",
        "| MUNKEY | 4.0 [1.0, 7.0] | 96.00 ± 0.10 | 2.00 ± 0.50 | 0.017 | no |",
    ]
    assert short("results/mine", "results/audited", "Numbers").splitlines() == expected
    page = "<!-- short results/mine results/audited Numbers -->\nold\n<!-- end -->\n"
    assert filled(page) == page.replace("old", "\n".join(expected))


def test_pages_are_written_from_the_command_line(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("<!-- encoders -->\n<!-- end -->\n")
    subprocess.run([sys.executable, "-m", "tools.docs_tables", page], check=True, cwd=ROOT)
    assert page.read_text() == f"<!-- encoders -->\n{TABLES['encoders']()}\n<!-- end -->\n"
