"""The meaning of the tables' columns: shown beside the tables of the report, and in docs/glossary.md.

`glossary.csv` holds the terms: their names, as tables print them, their meaning, and which values
are good.
"""

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from munkey.report.tables.markup import ABSENT, TitledTable

TERMS = Path(__file__).with_suffix(".csv")


class Term(NamedTuple):
    """The meaning of a column or of a row.

    Attributes
    ----------
    names
        As tables print it.
    good
        Which value is good, may be empty.
    """

    names: tuple[str, ...]
    what: str
    good: str


@cache
def terms() -> list[Term]:
    """Return all terms, in the order in which they are shown."""
    listed = []
    with TERMS.open(newline="") as lines:
        for line in csv.DictReader(lines):
            names = tuple(line["names"].split("; "))
            listed.append(Term(names, line["what"], line["good"]))
    return listed


def terms_of_tables(tables: Iterable[TitledTable]) -> list[Term]:
    """Return the terms that tables use: in their heads, in their first columns, and in their cells those that are signs."""
    words: set[str] = set()
    for _, frame, _ in tables:
        cells = set(map(str, frame.to_numpy().flat))
        words.update(map(str, frame.columns))
        words.update(frame.iloc[:, 0].astype(str))
        if ABSENT in cells:
            words.add(ABSENT)
        if "±" in "".join(cells):
            words.add("±")
    return [term for term in terms() if _is_among(term, words)]


def of_column(column: str) -> str:
    """Return the meaning of a column; empty if its name says it."""
    for term in terms():
        if _is_among(term, [column]):
            return term.what
    return ""


def _is_among(term: Term, words: Iterable[str]) -> bool:
    """Return whether any of its names is among the words of a table, alone or before a rate or a data set."""
    for word in words:
        for name in term.names:
            if word == name or word.startswith((f"{name} @", f"{name}, ")):
                return True
    return False
