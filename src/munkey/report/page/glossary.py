"""The meaning of the tables' columns, which the report and docs/glossary.md show.

`glossary.csv` lists the terms: their names in tables, their meaning, and which values are good.
"""

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from munkey.report.tables.markup import ABSENT, TitledTable

TERMS = Path(__file__).with_suffix(".csv")


class Term(NamedTuple):
    """A term: a column or a row of a table.

    Attributes
    ----------
    names
        The names of the term in tables.
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
    """Read all terms, in the order in which they are shown."""
    terms = []
    with TERMS.open(newline="") as rows:
        for row in csv.DictReader(rows):
            names = tuple(row["names"].split("; "))
            terms.append(Term(names, row["what"], row["good"]))
    return terms


def select_terms(tables: Iterable[TitledTable]) -> list[Term]:
    """Select the terms that tables use.

    A term is used if it appears in the head or in the first column of a table. The signs – and ±
    are used if they appear in any cell.
    """
    labels: set[str] = set()
    for _, frame, _ in tables:
        cells = set(map(str, frame.to_numpy().flat))
        labels.update(map(str, frame.columns))
        labels.update(frame.iloc[:, 0].astype(str))
        if ABSENT in cells:
            labels.add(ABSENT)
        if "±" in "".join(cells):
            labels.add("±")
    return [term for term in read_terms() if _is_among(term, labels)]


def find_meaning(column: str) -> str:
    """Return the meaning of a column; empty if it has no entry."""
    for term in read_terms():
        if _is_among(term, [column]):
            return term.what
    return ""


def _is_among(term: Term, labels: Iterable[str]) -> bool:
    """Return whether a name of the term is among the labels, possibly followed by a rate or a data set."""
    for label in labels:
        for name in term.names:
            if label == name or label.startswith((f"{name} @", f"{name}, ")):
                return True
    return False
