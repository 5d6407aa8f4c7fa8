"""The report page: one file that opens from disk, with sortable tables, figures, and where the results came from."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

import pandas as pd

from munkey.core.files import read_bytes
from munkey.report import ablations, paper, rank_table, tables
from munkey.report.audit_page import Audited
from munkey.report.chapters import Chapter, chapter
from munkey.report.figures import charts
from munkey.report.summary import Row

ABLATIONS = {
    "ablations": "Ablations",
    "aggregation": "Aggregation",
    "strategies": "Strategies",
    "fusion": "Fusion at inference alone",
    "encoders": "Encoders",
}


class Provenance(TypedDict):
    """The code and the machine, as in the record of a job."""

    commit: str
    device: str
    versions: dict[str, str]


class JobRecord(TypedDict):
    """The parts of a job's record that the page shows. Times are in ISO 8601."""

    started: str
    ended: str
    provenance: Provenance


class Figure(NamedTuple):
    """A figure of the page. data: its PNG as a data URL."""

    name: str
    caption: str
    data: str


class Fact(NamedTuple):
    """A line about where the results came from."""

    name: str
    value: str


class TrackedRun(TypedDict):
    """A run in MLflow. page: its address, empty where it could not be mirrored."""

    experiment: str
    name: str
    page: str


class Link(NamedTuple):
    """A link to a run in MLflow."""

    name: str
    address: str


@dataclass(frozen=True)
class Results:
    """What the tables of the page are made from.

    main, cases: summaries of the main experiment and of the ablations. rows, case_rows: the systems in each. grids:
    the table of the selection for each data set. statements: whether the numbers may be compared with the paper's.
    left: what audits found to be left; empty where none was run. ranks: as `rank_table` has them, from CSV; none where
    there is too little to rank.
    """

    main: pd.DataFrame
    cases: pd.DataFrame
    rows: Sequence[Row]
    case_rows: Sequence[Row]
    grids: Sequence[pd.DataFrame]
    statements: Sequence[str]
    left: tables.Left = field(default_factory=dict)
    ranks: Sequence[pd.DataFrame] = ()


@dataclass(frozen=True)
class Page:
    """Everything that the page shows.

    configuration: its name. audits: shown before all else, of the data sets that were audited. grid: seeds, rates and
    methods in words. params: the parameters as YAML.
    """

    configuration: str
    datasets: Sequence[str]
    grid: str
    audits: Sequence[Audited]
    chapters: Sequence[Chapter]
    figures: Sequence[Figure]
    origin: Sequence[Fact]
    runs: Sequence[Link]
    params: str


def render(page: Page, template: Path) -> str:
    """The page as HTML. Text is escaped; tables, which are HTML already, are not."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(template.read_text()).render(page=page) + "\n"


def chapters(results: Results) -> list[Chapter]:
    """The tables of the page in its order."""
    grids = [tables.selection_table(grid, grid["dataset"][0]) for grid in results.grids]
    both = paper.compare(results.main, results.cases)
    return [
        chapter("main", "Unlearning", tables.main_tables(results.main, results.rows, "html", results.left)),
        *(
            chapter("ranks", "Ranks", [rank_table.table(rank_table.read(each))], [rank_table.REMARK])
            for each in results.ranks
        ),
        chapter("runtime", "Run time", [tables.runtime_table(results.main, "html")]),
        *(
            chapter(name, title, titled)
            for name, title in ABLATIONS.items()
            if (titled := list(ablations.TABLES[name](results.cases, results.case_rows, "html")))
        ),
        chapter("selection", "Selection of p_image and p_token", grids),
        chapter("paper", "The paper's numbers", paper.tables(both), results.statements),
    ]


def figure(path: Path) -> Figure:
    """A figure with its caption. path: its PNG, named KIND or KIND-DATASET or KIND-DATASET-rateRATE."""
    kind, _, dataset = path.stem.partition("-")
    caption = charts.CAPTIONS[kind] + (f" {dataset.replace('-rate', ', forget rate ')}." if dataset else "")
    data = base64.b64encode(read_bytes(path)).decode()
    return Figure(path.stem, caption, f"data:image/png;base64,{data}")


def origin(records: Sequence[JobRecord], date: str) -> list[Fact]:
    """Commit, versions, machine and times of the jobs, each value once. date: when the page is made."""
    origins = [record["provenance"] for record in records]
    started, ended = min(record["started"] for record in records), max(record["ended"] for record in records)
    return [
        Fact("Report made", date),
        Fact("Jobs ran", f"{started} to {ended} (UTC)"),
        Fact("Machine", _each(origin["device"] for origin in origins)),
        Fact("Commit", _each(origin["commit"] for origin in origins)),
        Fact("Versions", _each(f"{name} {at}" for origin in origins for name, at in origin["versions"].items())),
    ]


def links(runs: Iterable[TrackedRun]) -> list[Link]:
    """Links to those runs that MLflow has."""
    return [Link(f"{run['experiment']}: {run['name']}", run["page"]) for run in runs if run["page"]]


def _each(values: Iterable[str]) -> str:
    """Every value once."""
    return ", ".join(sorted(set(values)))
