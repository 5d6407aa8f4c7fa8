"""The report, and the page of the audits: one file each that opens from disk.

The report has the story first, then sortable tables, figures, and its origin; the page of the audits has, for each data
set, its forest plot, its controls and its tables.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

import pandas as pd

from munkey.core.files import read_bytes, read_json, read_table
from munkey.report.figures.charts import caption
from munkey.report.page.chapters import Chapter, Link, chapter, rendered
from munkey.report.tables import ablations, paper
from munkey.report.tables import main as tables
from munkey.report.tables.audits import Residue, attacks_tables, audit_table, first_rows, storage_tables
from munkey.report.tables.markup import Titled
from munkey.report.tables.ranks import LINE, REMARK, rank_table
from munkey.report.tables.runtime import runtime_table, short_tables
from munkey.report.tables.summary import Row

MAIN = "../tables/main.csv"  # from the page
COST = (
    "Forgetting against its cost: what is left of what was deleted, and the seconds that it takes; bars are 95 %"
    " intervals. 0: as if never seen. Controls: the oracles, whose seconds are those of training anew."
)
ABLATIONS = {
    "ablations": "Ablations",
    "aggregation": "Aggregation",
    "strategies": "Strategies",
    "fusion": "Fusion at inference alone",
    "encoders": "Encoders",
}


class PageProvenance(TypedDict):
    """The code and the machine, as in the record of a job."""

    commit: str
    device: str
    versions: dict[str, str]


class JobLine(TypedDict):
    """The parts of a job's record that the page shows. Times are in ISO 8601."""

    started: str
    ended: str
    provenance: PageProvenance


class Figure(NamedTuple):
    """A figure of the page. data: its SVG as a data URL; file: the address of its SVG, from the page."""

    name: str
    caption: str
    data: str
    file: str


class Fact(NamedTuple):
    """A line about where the results came from."""

    name: str
    value: str


class TrackedRun(TypedDict):
    """A run in MLflow. page: its address, empty where it could not be mirrored."""

    experiment: str
    name: str
    page: str


@dataclass(frozen=True)
class AuditChapter:
    """What a page shows of a data set's audit. figure: the forest plot as a data URL; controls: in words, by family."""

    dataset: str
    figure: str
    controls: Mapping[str, Sequence[str]]
    chapter: Chapter


@dataclass(frozen=True)
class PageResults:
    """What the tables of the page are made from.

    main, cases: summaries of the main experiment and of the ablations. rows, case_rows: the systems in each. grids:
    the table of the selection for each data set. statements: whether the numbers may be compared with the paper's.
    residue: what audits found to be left; empty where none was run. ranks: from their CSV file; none where there is too
    little to rank.
    """

    main: pd.DataFrame
    cases: pd.DataFrame
    rows: Sequence[Row]
    case_rows: Sequence[Row]
    grids: Sequence[pd.DataFrame]
    statements: Sequence[str]
    residue: Residue = field(default_factory=dict)
    ranks: Sequence[pd.DataFrame] = ()


class Heading(NamedTuple):
    """configuration: its name. grid: seeds, rates and methods in words."""

    configuration: str
    datasets: Sequence[str]
    grid: str


@dataclass(frozen=True)
class Page:
    """Everything that the page shows.

    heading: what was run. story: the short tables. costs, audits: of the data sets that were audited. runs: in MLflow.
    params: the parameters as YAML.
    """

    heading: Heading
    story: Chapter
    costs: Sequence[Figure]
    audits: Sequence[AuditChapter]
    chapters: Sequence[Chapter]
    figures: Sequence[Figure]
    origin: Sequence[Fact]
    runs: Sequence[Link]
    params: str

    @property
    def pictures(self) -> Sequence[Figure]:
        """The figures above the short tables."""
        return self.costs or [figure for figure in self.figures if figure.name == "forgetting"]

    @property
    def site(self) -> str:
        """The address that MLflow's pages have in common; empty where no run is linked."""
        return self.runs[0].address.partition("/#")[0] if self.runs else ""


def report_page(page: Page, template: Path) -> str:
    """The report as HTML."""
    return rendered(template, page=page)


def audit_page(name: str, audits: Sequence[AuditChapter], template: Path) -> str:
    """The page of the audits as HTML. name: of the configuration."""
    return rendered(template, name=name, audits=audits)


def audit_chapter(
    dataset: str, audit: pd.DataFrame, controls: Path, figure: Path, further: Sequence[Titled]
) -> AuditChapter:
    """audit: its rows. controls, figure: files of it. further: tables below that of the audit."""
    files = [f"../audit/{dataset}/{name}.csv" for name in ("table", "storage")]  # from the folder of either page
    shown = chapter(dataset, dataset, [audit_table(audit, dataset), *further], files=files)
    return AuditChapter(dataset, data_url(figure), read_json(controls), shown)


def audit_in_report(dataset: str, audit: pd.DataFrame, storage: Path, controls: Path, figure: Path) -> AuditChapter:
    """What the report shows of an audit, with what its storage audit found."""
    return audit_chapter(dataset, first_rows(audit), controls, figure, storage_tables(read_table(storage)))


def attacks_of(found: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]) -> list[Titled]:
    """The tables of attacks on one model, titled as such."""
    tables = attacks_tables(found, tidy, rows)
    return [Titled(f"Attacks on one model: {titled.title}", titled.frame) for titled in tables]


def data_url(path: str | Path) -> str:
    """An SVG as a data URL."""
    return f"data:image/svg+xml;base64,{base64.b64encode(read_bytes(path)).decode()}"


def story(results: PageResults) -> Chapter:
    """What matters most: a short table for each data set."""
    return chapter("story", "In short", short_tables(results.main, results.rows, results.residue), files=[MAIN])


def chapters(results: PageResults) -> list[Chapter]:
    """The tables of the page in its order."""
    grids = [tables.selection_table(grid, grid["dataset"][0]) for grid in results.grids]
    selections = [f"../selection/{grid['dataset'][0]}/table.csv" for grid in results.grids]
    main = tables.main_tables(results.main, results.rows, "html", results.residue)
    both = paper.compare(results.main, results.cases)
    return [
        chapter("main", "Unlearning", main, files=[MAIN, "../metrics.csv"]),
        *(
            chapter("ranks", "Ranks", [rank_table(each.set_index(LINE))], [REMARK], ["../tables/ranks.csv"])
            for each in results.ranks
        ),
        chapter("runtime", "Run time", [runtime_table(results.main, results.rows, "html")], files=[MAIN]),
        *(
            chapter(name, title, titled, files=["../tables/ablations.csv"])
            for name, title in ABLATIONS.items()
            if (titled := list(ablations.TABLES[name](results.cases, results.case_rows, "html")))
        ),
        chapter("selection", "Selection of p_image and p_token", grids, files=selections),
        chapter("paper", "The paper's numbers", paper.tables(both), results.statements, ["../tables/paper.csv"]),
    ]


def figure(path: Path) -> Figure:
    """A figure with its caption. path: its SVG."""
    return Figure(path.stem, caption(path.stem), data_url(path), f"../figures/{path.name}")


def cost(dataset: str, path: Path) -> Figure:
    """The figure of forgetting against its cost of a data set that was audited."""
    return Figure(f"cost-{dataset}", f"{COST} {dataset}.", data_url(path), f"../audit/{dataset}/{path.name}")


def origin(records: Sequence[JobLine], date: str) -> list[Fact]:
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
