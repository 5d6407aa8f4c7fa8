"""What the columns of the tables mean: shown beside the tables of the report, and in docs/glossary.md.

`glossary.csv` holds the terms: names, as tables print them, what they mean, and which values are good.
"""

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from munkey.report.tables.markup import ABSENT, Titled

TERMS = Path(__file__).with_suffix(".csv")


class Term(NamedTuple):
    """What stands in a column, or in a row. names: as tables print it; good: which value is good, empty for none."""

    names: tuple[str, ...]
    what: str
    good: str


@cache
def terms() -> list[Term]:
    """All terms, in the order in which they are shown."""
    with TERMS.open(newline="") as lines:
        return [
            Term(tuple(line["names"].split("; ")), line["what"], line["good"])
            for line in csv.DictReader(lines)
        ]


def explained(tables: Iterable[Titled]) -> list[Term]:
    """The terms that tables use: in their heads, in their first columns, and in their cells those that are signs."""
    shown: set[str] = set()
    for _, frame, _ in tables:
        cells = {str(cell) for cell in frame.to_numpy().flat}
        shown |= {*map(str, frame.columns), *frame.iloc[:, 0].astype(str), *(cells & {ABSENT})}
        shown |= {"±"} if any("±" in cell for cell in cells) else set()
    return [term for term in terms() if _is_shown(term, shown)]


def of_column(column: str) -> str:
    """What a column means; nothing for one that says so itself."""
    return next((term.what for term in terms() if _is_shown(term, [column])), "")


def _is_shown(term: Term, shown: Iterable[str]) -> bool:
    """Whether any of its names is among the words of a table, alone or before a rate or a data set."""
    return any(
        text == name or text.startswith((f"{name} @", f"{name}, "))
        for text in shown
        for name in term.names
    )
