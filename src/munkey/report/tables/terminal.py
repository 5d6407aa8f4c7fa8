"""Tables in Markdown as a terminal shows them: without markup, and no wider than a screen."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

WIDTH = 100  # columns of a screen
MARKS = re.compile(r"\*\*|</?u>")

Column = list[str]  # its head, then its cells


def render_plain(markdown: str, width: int = WIDTH) -> str:
    """Return a page of titled tables.

    The columns of a wide table that do not fit stand below, beside its first column again.

    Columns of one forget rate, whose heads end in the same @RATE, stay together where they fit.
    """
    texts = []
    for is_table, lines in groupby(markdown.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            texts.append(_table(list(lines), width))
        else:
            texts.append(_words(lines, width))
    return "\n".join(texts) + "\n"


def _words(lines: Iterable[str], width: int) -> str:
    """Titles and remarks; a line of them breaks where the screen ends."""
    return "\n".join(textwrap.fill(line.removeprefix("### "), width) for line in lines)


def _table(lines: Sequence[str], width: int) -> str:
    head, _, *rows = map(_cells, lines)  # below the head stand dashes
    names, *columns = map(list, zip(head, *rows, strict=True))
    groups = [list(group) for _, group in groupby(columns, key=_rate)]
    texts = []
    for part in _parts(groups, width - _width([names])):
        texts.append(_text([names, *part]))
    return "\n\n".join(texts)


def _cells(line: str) -> list[str]:
    """Return the cells of a line, without markup."""
    return [MARKS.sub("", cell).strip() for cell in line.strip("|").split("|")]


def _rate(column: Column) -> str:
    return column[0].partition("@")[2]


def _parts(groups: Sequence[list[Column]], width: int) -> Iterator[list[Column]]:
    """Yield columns that fit side by side: whole groups where they can, or else one column after the other."""
    part: list[Column] = []
    for group in groups:
        pieces = [group]
        if _width(group) > width:
            pieces = [[column] for column in group]
        for columns in pieces:
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
    lines = []
    for row in zip(*columns, strict=True):
        lines.append("  ".join(map(str.ljust, row, widths)).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
