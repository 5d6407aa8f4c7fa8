"""Tables in Markdown as a terminal shows them: without markup, and no wider than a screen."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

WIDTH = 100  # columns of a screen
MARKS = re.compile(r"\*\*|</?u>")

Column = list[str]  # its head, then its cells


def plain(markdown: str, width: int = WIDTH) -> str:
    """A page of titled tables. Of a wide one, what does not fit stands below, beside its first column again.

    Columns of one forget rate, whose heads end in the same @RATE, stay together where they fit.
    """
    blocks = groupby(markdown.splitlines(), key=lambda line: line.startswith("|"))
    texts = (
        _table(list(lines), width) if is_table else _words(lines, width)
        for is_table, lines in blocks
    )
    return "\n".join(texts) + "\n"


def _words(lines: Iterable[str], width: int) -> str:
    """Titles and what else is no table, a line of it broken where the screen ends."""
    return "\n".join(textwrap.fill(line.removeprefix("### "), width) for line in lines)


def _table(lines: Sequence[str], width: int) -> str:
    rows = [[MARKS.sub("", cell).strip() for cell in line.strip("|").split("|")] for line in lines]
    names, *columns = [[head, *cells] for head, _, *cells in zip(*rows, strict=True)]
    parts = _parts(
        [list(group) for _, group in groupby(columns, key=_rate)], width - _width([names])
    )
    return "\n\n".join(_text([names, *part]) for part in parts)


def _rate(column: Column) -> str:
    return column[0].partition("@")[2]


def _parts(groups: Sequence[list[Column]], width: int) -> Iterator[list[Column]]:
    """Columns that fit side by side: whole groups where they can, or else one column after the other."""
    part: list[Column] = []
    for group in groups:
        for columns in [group] if _width(group) <= width else [[column] for column in group]:
            if part and _width(part + columns) > width:
                yield part
                part = []
            part = part + columns
    yield part


def _width(columns: Sequence[Column]) -> int:
    """With two spaces behind each."""
    return sum(2 + max(map(len, column)) for column in columns)


def _text(columns: Sequence[Column]) -> str:
    widths = [max(map(len, column)) for column in columns]
    head, *rows = [
        "  ".join(map(str.ljust, row, widths)).rstrip() for row in zip(*columns, strict=True)
    ]
    return "\n".join([head, "  ".join("-" * width for width in widths), *rows])
