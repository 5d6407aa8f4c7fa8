"""The page of the audits: for each data set its forest plot, its controls and its tables, in one file."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from munkey.core.files import read_bytes, read_json, read_table
from munkey.report.page.chapters import Chapter, chapter, rendered
from munkey.report.tables import audits
from munkey.report.tables.markup import Titled
from munkey.report.tables.summary import Row


@dataclass(frozen=True)
class Audited:
    """What the page shows of a data set. figure: the forest plot as a data URL; controls: in words, by family."""

    dataset: str
    figure: str
    controls: Mapping[str, Sequence[str]]
    chapter: Chapter


def data_url(path: str | Path) -> str:
    """An SVG as a data URL."""
    return f"data:image/svg+xml;base64,{base64.b64encode(read_bytes(path)).decode()}"


def audited(dataset: str, audit: pd.DataFrame, controls: str, figure: str, further: Sequence[Titled]) -> Audited:
    """audit: its rows. controls, figure: files of it. further: tables below that of the audit."""
    files = [f"../audit/{dataset}/{name}.csv" for name in ("table", "storage")]  # from the folder of either page
    shown = chapter(dataset, dataset, [audits.table(audit, dataset), *further], files=files)
    return Audited(dataset, data_url(figure), read_json(controls), shown)


def in_report(dataset: str, audit: pd.DataFrame, storage: str, controls: str, figure: str) -> Audited:
    """What the report shows of an audit, with what its storage audit found."""
    return audited(dataset, audits.shown(audit), controls, figure, audits.storage_tables(read_table(storage)))


def render(name: str, shown: Sequence[Audited], template: Path) -> str:
    """The page as HTML. name: of the configuration."""
    return rendered(template, name=name, audits=shown)


def attacks_of(found: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]) -> list[Titled]:
    """The tables of attacks on one model, titled as such."""
    tables = audits.attacks_tables(found, tidy, rows)
    return [Titled(f"Attacks on one model: {titled.title}", titled.frame) for titled in tables]
