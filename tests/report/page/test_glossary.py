"""The glossary: it explains every column of the report's tables."""

import csv

import pandas as pd

from munkey.report.page import glossary
from munkey.report.tables import frontier
from munkey.report.tables.frontier import Design
from munkey.report.tables.main import make_main_tables
from munkey.report.tables.markup import TitledTable
from munkey.report.tables.runtime import runtime_table
from munkey.report.tables.summary import summarize
from tests.report.inputs import ROWS, tidy

PLAIN = {"Method", "Data set", "Forget"}


def test_every_column_of_numbers_is_explained():
    summary = summarize(pd.concat([tidy(), tidy(rate=0.02)]), ROWS)
    designs = [Design(row.name, row.title, "weights", "", "–") for row in ROWS]
    points = frontier.collect_points(summary, None, designs)
    tables = [
        *make_main_tables(summary, ROWS, "html", {"digits": {}}),
        runtime_table(summary, ROWS, "html"),
        frontier.make_frontier_table(points, "html"),
    ]
    for table in tables:
        for column in set(table.frame) - PLAIN:
            assert glossary.find_meaning(column), column


def test_a_comma_within_a_meaning_is_quoted():
    with glossary.TERMS.open(newline="") as lines:
        for row in csv.reader(lines):
            assert len(row) == 3, row


def test_a_name_is_found_before_a_rate_or_a_data_set_but_not_within_a_word():
    accuracy = glossary.find_meaning("Test accuracy")
    assert glossary.find_meaning("TA") == accuracy
    assert glossary.find_meaning("TA @10%") == accuracy
    assert glossary.find_meaning("P_s, digits").startswith("pathway sensitivity")
    assert glossary.find_meaning("TAX") == ""
    assert glossary.find_meaning("Table") == ""


def test_a_table_brings_the_terms_that_it_uses():
    frame = pd.DataFrame({"Method": ["CF", "Retrain (T)"], "FA": ["1.0 ± 0.5", "–"]})
    names = [term.names[0] for term in glossary.select_terms([TitledTable("", frame)])]
    assert names == ["FA", "±", "Retrain (T)", "–"]
    (term,) = glossary.select_terms([TitledTable("", frame[:1].assign(FA="1"))])
    assert term.names[0] == "FA"
