"""The report page: one file that opens from disk, with the story first, sortable tables, figures, and its origin."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

import pandas as pd

from munkey.report.page.audit_page import Audited, data_url
from munkey.report.page.captions import caption
from munkey.report.page.chapters import Chapter, Link, chapter, rendered
from munkey.report.tables import ablations, paper, rank_table, runtime, short
from munkey.report.tables import main as tables
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
    audits: Sequence[Audited]
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


def render(page: Page, template: Path) -> str:
    """The page as HTML."""
    return rendered(template, page=page)


def story(results: Results) -> Chapter:
    """What matters most: a short table for each data set."""
    return chapter("story", "In short", short.tables(results.main, results.rows, results.left), files=[MAIN])


def chapters(results: Results) -> list[Chapter]:
    """The tables of the page in its order."""
    grids = [tables.selection_table(grid, grid["dataset"][0]) for grid in results.grids]
    selections = [f"../selection/{grid['dataset'][0]}/table.csv" for grid in results.grids]
    main = tables.main_tables(results.main, results.rows, "html", results.left)
    both = paper.compare(results.main, results.cases)
    return [
        chapter("main", "Unlearning", main, files=[MAIN, "../metrics.csv"]),
        *(
            chapter(
                "ranks",
                "Ranks",
                [rank_table.table(rank_table.read(each))],
                [rank_table.REMARK],
                ["../tables/ranks.csv"],
            )
            for each in results.ranks
        ),
        chapter("runtime", "Run time", [runtime.runtime_table(results.main, results.rows, "html")], files=[MAIN]),
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
