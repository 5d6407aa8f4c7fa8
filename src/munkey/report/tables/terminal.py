"""Markdown tables for a terminal: without markup, and no wider than the screen."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

WIDTH = 100  # of the screen, in characters
MARKS = re.compile(r"\*\*|</?u>")

Column = list[str]  # its head, then its cells


def render_plain(markdown: str, width: int = WIDTH) -> str:
    """Render a page of titled tables as plain text.

    A table that is too wide continues below, with its first column repeated. Columns of one forget
    rate, whose heads end in the same @RATE, stay together if they fit.
    """
    texts = []
    for is_table, lines in groupby(markdown.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            texts.append(_render_table(list(lines), width))
        else:
            texts.append(_wrap(lines, width))
    return "\n".join(texts) + "\n"


def _wrap(lines: Iterable[str], width: int) -> str:
    """Wrap titles and remarks to the width of the screen."""
    return "\n".join(textwrap.fill(line.removeprefix("### "), width) for line in lines)


def _render_table(lines: Sequence[str], width: int) -> str:
    """Render a Markdown table as plain text, in several tables if it is too wide."""
    head, _, *rows = map(_split_cells, lines)  # the second line has only dashes
    names, *columns = map(list, zip(head, *rows, strict=True))
    groups = [list(group) for _, group in groupby(columns, key=_get_rate)]
    texts = []
    for part in _split_columns(groups, width - _measure_width([names])):
        texts.append(_align([names, *part]))
    return "\n\n".join(texts)


def _split_cells(line: str) -> list[str]:
    """Split a line into cells, and remove their markup."""
    return [MARKS.sub("", cell).strip() for cell in line.strip("|").split("|")]


def _get_rate(column: Column) -> str:
    return column[0].partition("@")[2]


def _split_columns(groups: Sequence[list[Column]], width: int) -> Iterator[list[Column]]:
    """Yield columns that fit side by side. A group is split only if it is too wide by itself."""
    part: list[Column] = []
    for group in groups:
        pieces = [group]
        if _measure_width(group) > width:
            pieces = [[column] for column in group]
        for columns in pieces:
            if part and _measure_width(part + columns) > width:
                yield part
                part = []
            part = part + columns
    yield part


def _measure_width(columns: Sequence[Column]) -> int:
    """Return the width of columns side by side, with two spaces after each."""
    return sum(2 + max(map(len, column)) for column in columns)


def _align(columns: Sequence[Column]) -> str:
    """Render columns side by side as text, with a line of dashes below their heads."""
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        lines.append("  ".join(map(str.ljust, row, widths)).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
