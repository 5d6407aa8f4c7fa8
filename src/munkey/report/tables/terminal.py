"""Rendering of Markdown tables as plain text that fits the width of a terminal."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

WIDTH = 100  # characters
MARKUP = re.compile(r"\*\*|</?u>")

Column = list[str]  # a header, then the cells


def render_plain(markdown: str, width: int = WIDTH) -> str:
    """Return a Markdown page of titled tables as plain text.

    A table that is too wide is split into several tables, each of which repeats the first column.
    Columns of the same forget rate, whose headers end with the same @RATE, stay together if they
    fit.
    """
    texts = []
    for is_table, lines in groupby(markdown.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            texts.append(_render_table(list(lines), width))
        else:
            texts.append(_wrap(lines, width))
    return "\n".join(texts) + "\n"


def _wrap(lines: Iterable[str], width: int) -> str:
    """Return titles and remarks, with their lines wrapped."""
    return "\n".join(textwrap.fill(line.removeprefix("### "), width) for line in lines)


def _render_table(lines: Sequence[str], width: int) -> str:
    """Return a Markdown table as plain text, split into several tables if it is too wide."""
    header, _, *rows = map(_split_cells, lines)  # the second line only contains dashes
    first_column, *columns = map(list, zip(header, *rows, strict=True))
    groups = [list(group) for _, group in groupby(columns, key=_get_rate)]
    texts = []
    for part in _split_columns(groups, width - _measure_width([first_column])):
        texts.append(_align([first_column, *part]))
    return "\n\n".join(texts)


def _split_cells(line: str) -> list[str]:
    """Return the cells of a Markdown table row, without markup."""
    return [MARKUP.sub("", cell).strip() for cell in line.strip("|").split("|")]


def _get_rate(column: Column) -> str:
    return column[0].partition("@")[2]


def _split_columns(groups: Sequence[list[Column]], width: int) -> Iterator[list[Column]]:
    """Yield lists of columns that fit side by side. Groups that fit are not split."""
    part: list[Column] = []
    for group in groups:
        if _measure_width(group) > width:
            pieces = [[column] for column in group]
        else:
            pieces = [group]
        for columns in pieces:
            if part and _measure_width(part + columns) > width:
                yield part
                part = []
            part = part + columns
    yield part


def _measure_width(columns: Sequence[Column]) -> int:
    """Return the total width of columns, including two spaces after each."""
    return sum(2 + max(map(len, column)) for column in columns)


def _align(columns: Sequence[Column]) -> str:
    """Return columns as an aligned text table, with a line of dashes below the header."""
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        lines.append("  ".join(map(str.ljust, row, widths)).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
