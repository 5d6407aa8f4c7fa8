"""Parts of a page: tables as HTML, under a title."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import markupsafe

from munkey.report.markup import Titled, html_table


class HtmlTable(NamedTuple):
    """A table of the page: its title, empty for none, and its HTML."""

    title: str
    html: markupsafe.Markup


@dataclass(frozen=True)
class Chapter:
    """A part of the page: remarks, then tables. id: the anchor that links point to."""

    id: str
    title: str
    tables: Sequence[HtmlTable]
    remarks: Sequence[str] = ()


def chapter(name: str, title: str, contents: Iterable[Titled], remarks: Sequence[str] = ()) -> Chapter:
    """A part of the page from tables whose cells are HTML."""
    made = [HtmlTable(table.title, markupsafe.Markup(html_table(table.frame))) for table in contents]
    return Chapter(name, title, made, remarks)
