"""Parts of a page: tables as HTML, under a title, with what their columns mean and where to get them as CSV."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import markupsafe
import pandas as pd

from munkey.report.page import glossary
from munkey.report.page.glossary import Term
from munkey.report.tables.markup import Titled, html_table


class HtmlTable(NamedTuple):
    """A table of the page: its title, empty for none, and its HTML."""

    title: str
    html: markupsafe.Markup


class Link(NamedTuple):
    """A link of the page."""

    name: str
    address: str


@dataclass(frozen=True)
class Chapter:
    """A part of the page: remarks, then tables. id: the anchor that links point to.

    terms: what its columns mean; files: the tables as CSV.
    """

    id: str
    title: str
    tables: Sequence[HtmlTable]
    remarks: Sequence[str] = ()
    terms: Sequence[Term] = ()
    files: Sequence[Link] = ()


def chapter(
    name: str, title: str, contents: Iterable[Titled], remarks: Sequence[str] = (), files: Sequence[str] = ()
) -> Chapter:
    """A part of the page from tables whose cells are HTML. files: addresses of CSV files, from the page."""
    contents = list(contents)
    made = [HtmlTable(table.title, _html(table.frame)) for table in contents]
    used = {term for table in contents for term in glossary.explained(table.frame)}
    terms = [term for term in glossary.terms() if term in used]
    return Chapter(name, title, made, remarks, terms, [Link(file.removeprefix("../"), file) for file in files])


def rendered(template: Path, **content: object) -> str:
    """A page as HTML. Text is escaped; tables, which are HTML already, are not. It may extend templates beside it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(template.name).render(**content) + "\n"


def _html(frame: pd.DataFrame) -> markupsafe.Markup:
    """A table whose heads say what they mean when a pointer rests on them."""
    return markupsafe.Markup(re.sub("<th>(.*?)</th>", _head, html_table(frame)))


def _head(found: re.Match[str]) -> str:
    what = glossary.of_column(found[1])
    return f'<th title="{markupsafe.escape(what)}">{found[1]}</th>' if what else found[0]
