"""The docs' tables are those of the registries."""

from pathlib import Path

import pytest

from munkey.listing import TABLES, filled

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["data.md", "encoders.md", "methods.md"])
def test_tables_have_not_drifted_from_the_registries(page):
    text = (DOCS / page).read_text()
    assert filled(text) == text, "run `make docs`"
    assert any(table() in text for table in TABLES.values())
