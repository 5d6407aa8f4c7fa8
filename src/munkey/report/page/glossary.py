"""The meanings of the tables' columns, shown next to the report's tables and in docs/glossary.md.

`glossary.csv` contains the terms: their names as printed in tables, their meanings, and which values
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
    """A term that occurs as a column or a row of tables.

    Attributes
    ----------
    names
        The names that tables print for it.
    what
        Its meaning.
    good
        Which values are good; may be empty.
    """

    names: tuple[str, ...]
    what: str
    good: str


@cache
def read_terms() -> list[Term]:
    """Read all terms, in display order."""
    terms = []
    with TERMS.open(newline="") as file:
        for row in csv.DictReader(file):
            names = tuple(row["names"].split("; "))
            terms.append(Term(names, row["what"], row["good"]))
    return terms


def select_terms(tables: Iterable[TitledTable]) -> list[Term]:
    """Return the terms that occur in tables.

    A term occurs if it is in the header or the first column of a table. The signs – and ± occur if
    any cell contains them.
    """
    labels: set[str] = set()
    for table in tables:
        cells = set(map(str, table.frame.to_numpy().flat))
        labels.update(map(str, table.frame.columns))
        labels.update(table.frame.iloc[:, 0].astype(str))
        if ABSENT in cells:
            labels.add(ABSENT)
        if "±" in "".join(cells):
            labels.add("±")
    return [term for term in read_terms() if _occurs(term, labels)]


def find_meaning(column: str) -> str:
    """Return the meaning of a column, or an empty string if the glossary does not contain it."""
    for term in read_terms():
        if _occurs(term, [column]):
            return term.what
    return ""


def _occurs(term: Term, labels: Iterable[str]) -> bool:
    """Return whether a name of the term is among the labels, possibly with a rate or data set."""
    for label in labels:
        for name in term.names:
            if label == name or label.startswith((f"{name} @", f"{name}, ")):
                return True
    return False
