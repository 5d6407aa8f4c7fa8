"""The docs' tables are those of the registries."""

from pathlib import Path

import pytest

from benchmarks import page as benchmarks_page
from munkey.listing import TABLES, filled

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["data.md", "encoders.md", "methods.md"])
def test_tables_have_not_drifted_from_the_registries(page):
    text = (DOCS / page).read_text()
    assert filled(text) == text, "run `make docs`"
    assert any(table() in text for table in TABLES.values())


def test_the_page_on_speed_shows_what_was_measured():
    text = (DOCS / "performance.md").read_text()
    assert benchmarks_page.filled(text) == text, "run `make docs`"
    assert text.count("| what | median |") == len(list(benchmarks_page.RESULTS.glob("speed-*.json"))) > 0
