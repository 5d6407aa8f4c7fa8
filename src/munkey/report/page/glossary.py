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
    """Return all terms, in the order in which they are shown."""
    listed = []
    with TERMS.open(newline="") as rows:
        for row in csv.DictReader(rows):
            names = tuple(row["names"].split("; "))
            listed.append(Term(names, row["what"], row["good"]))
    return listed


def select_terms(tables: Iterable[TitledTable]) -> list[Term]:
    """Return the terms that tables use.

    A term is used if it stands in the head or the first column of a table; the signs for an absent
    value and for ± are used if any cell holds them.
    """
    words: set[str] = set()
    for _, frame, _ in tables:
        cells = set(map(str, frame.to_numpy().flat))
        words.update(map(str, frame.columns))
        words.update(frame.iloc[:, 0].astype(str))
        if ABSENT in cells:
            words.add(ABSENT)
        if "±" in "".join(cells):
            words.add("±")
    return [term for term in read_terms() if _is_among(term, words)]


def find_meaning(column: str) -> str:
    """Return the meaning of a column; empty if its name says it."""
    for term in read_terms():
        if _is_among(term, [column]):
            return term.what
    return ""


def _is_among(term: Term, words: Iterable[str]) -> bool:
    """Return whether any name of the term is among the words of a table, alone or before a rate or a data set."""
    for word in words:
        for name in term.names:
            if word == name or word.startswith((f"{name} @", f"{name}, ")):
                return True
    return False
