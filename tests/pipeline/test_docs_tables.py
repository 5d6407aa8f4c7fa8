"""The tables of the docs are those of the registries."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import page as benchmarks_page
from munkey.pipeline.docs_tables import TABLES, filled, put

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["audits.md", "data.md", "encoders.md", "methods.md"])
def test_tables_have_not_drifted_from_the_registries(page):
    text = (DOCS / page).read_text()
    assert filled(text) == text, "run `make docs`"
    assert any(table() in text for table in TABLES.values())


def test_a_table_replaces_what_stands_between_its_markers_and_nothing_else():
    text = "a\n<!-- one -->\nold\nold\n<!-- end -->\nb\n<!-- two -->\nold\n<!-- end -->\n"
    expected = "a\n<!-- one -->\n| \\1 |\n<!-- end -->\nb\n<!-- two -->\nold\n<!-- end -->\n"
    assert put(text, "one", "| \\1 |") == expected
    assert put(text, "three", "new") == text


def test_pages_are_written_from_the_command_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- encoders -->\n<!-- end -->\n")
    subprocess.run([sys.executable, "-m", "munkey.pipeline.docs_tables", page], check=True)
    assert page.read_text() == f"<!-- encoders -->\n{TABLES['encoders']()}\n<!-- end -->\n"


def test_the_page_on_speed_shows_what_was_measured():
    text = (DOCS / "performance.md").read_text()
    assert benchmarks_page.filled(text) == text, "run `make docs`"
    assert text.count("| what | median |") == len(list(benchmarks_page.RESULTS.glob("speed-*.json"))) > 0
