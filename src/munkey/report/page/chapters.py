"""Chapters of the page, and their files: a study's job writes its chapters, and the page reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from munkey.core.files import read_json, write_json
from munkey.report.tables.markup import TitledTable


class Figure(NamedTuple):
    """A figure on the page.

    Attributes
    ----------
    data
        The SVG as a data URL.
    file
        The path of its file, relative to the page.
    narrow
        A narrow version of the SVG for phones, as a data URL; may be empty.
    """

    name: str
    caption: str
    data: str
    file: str
    narrow: str = ""


class Chapter(NamedTuple):
    """A chapter of the page: remarks, figures, and tables whose cells are HTML.

    Attributes
    ----------
    id
        The anchor that links point to.
    files
        The paths of the tables' CSV files, relative to the page.
    """

    id: str
    title: str
    tables: Sequence[TitledTable]
    remarks: Sequence[str] = ()
    files: Sequence[str] = ()
    figures: Sequence[Figure] = ()


def write_chapters(path: Path, chapters: Sequence[Chapter]) -> None:
    """Write chapters as JSON. Chapters without a table are left out."""
    documents = []
    for chapter in chapters:
        if not chapter.tables:
            continue
        tables = []
        for table in chapter.tables:
            cells = table.frame.to_dict("split", index=False)
            tables.append({"title": table.title, **cells, "remark": table.remark})
        figures = [figure._asdict() for figure in chapter.figures]
        documents.append({**chapter._asdict(), "tables": tables, "figures": figures})
    write_json(path, documents)


def read_chapters(paths: Sequence[Path]) -> list[Chapter]:
    """Read chapters from their files. Those with the same id, e.g. of several data sets, become one."""
    chapters: dict[str, Chapter] = {}
    for path in paths:
        for document in read_json(path):
            tables = []
            for table in document["tables"]:
                frame = pd.DataFrame(table["data"], columns=table["columns"])
                tables.append(TitledTable(table["title"], frame, table["remark"]))
            figures = [Figure(**figure) for figure in document["figures"]]
            chapter = Chapter(**{**document, "tables": tables, "figures": figures})
            if chapter.id in chapters:
                chapter = _join(chapters[chapter.id], chapter)
            chapters[chapter.id] = chapter
    return list(chapters.values())


def _join(chapter: Chapter, more: Chapter) -> Chapter:
    """Return a chapter with all of both. Remarks that both have are shown once."""
    return chapter._replace(
        tables=[*chapter.tables, *more.tables],
        remarks=list(dict.fromkeys([*chapter.remarks, *more.remarks])),
        files=[*chapter.files, *more.files],
        figures=[*chapter.figures, *more.figures],
    )
