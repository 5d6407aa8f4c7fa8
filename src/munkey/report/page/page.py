"""The report, an HTML page: which design to deploy, then audits, sortable tables, figures, and its origin."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import markupsafe
import pandas as pd
from matplotlib.figure import Figure as DrawnFigure

from munkey.core import templates
from munkey.core.files import read_json, read_table
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD, get_caption
from munkey.report.figures.forgetting import gap_plot
from munkey.report.figures.frontier import frontier_plot
from munkey.report.figures.shares import forest_plot, strata_plot
from munkey.report.page import glossary
from munkey.report.tables import ablations, paper
from munkey.report.tables import frontier as frontiers
from munkey.report.tables import main as tables
from munkey.report.tables.audits import (
    Residue,
    make_attack_tables,
    make_audit_table,
    make_storage_tables,
    make_strata_table,
    select_main_rows,
)
from munkey.report.tables.markup import TitledTable, html_table
from munkey.report.tables.ranks import INDEX, REMARK, make_rank_table
from munkey.report.tables.runtime import make_runtime_table
from munkey.report.tables.summary import Row, describe_underfit

LONG_CELL = (
    36  # characters; a longer cell wraps, since it is a sentence, not a number with its interval
)
MAIN = "../tables/main.csv"  # relative to the page
FRONTIER = (
    "The frontier: residual share (negative: over-forgotten), test accuracy, and the seconds to forget."
    " Bars: 95 % intervals, and ± over seeds for accuracies (with one seed, the 95 % interval over test samples)."
    " Dashed: the highest accuracy of any design with at most that share. Hollow: only an attack flagged the design,"
    " so its share has no bound. Designs with an unknown share are not drawn."
)
SHARES = "Residual shares with their 95 % intervals, between never seen (0) and the original (100)"
STRATA = (
    "Residual share by how much a sample was memorized; without samples that were hardly memorized"
)
ABLATIONS = {
    "ablations": "Ablations",
    "aggregation": "Aggregation",
    "strategies": "Strategies",
    "fusion": "Fusion at inference only",
    "encoders": "Encoders",
}


class Figure(NamedTuple):
    """A figure of the page.

    Attributes
    ----------
    data, narrow
        The SVG as a data URL, and a version for a phone, which may be empty.
    file
        The address of the SVG file, relative to the page.
    """

    name: str
    caption: str
    data: str
    file: str
    narrow: str = ""


class Chapter(NamedTuple):
    """A part of the page: remarks, then tables with HTML cells.

    Attributes
    ----------
    id
        The anchor for links.
    files
        The addresses of the tables as CSV, relative to the page.
    """

    id: str
    title: str
    tables: Sequence[TitledTable]
    remarks: Sequence[str] = ()
    files: Sequence[str] = ()


class AuditChapter(NamedTuple):
    """The part of the page on the audit of a data set.

    Attributes
    ----------
    figure
        The forest plot of residual shares.
    strata
        The figure of residual shares by memorization.
    controls
        The findings on the controls as sentences, by family.
    """

    figure: Figure
    strata: Figure
    controls: Mapping[str, Sequence[str]]
    chapter: Chapter


class PageResults(NamedTuple):
    """The results that the tables of the page are made from.

    A sequence is empty if its part of the experiment was not run.

    Attributes
    ----------
    main, cases
        The summaries of the main experiment and of the ablations.
    rows, case_rows
        The systems in each of the two.
    grids
        The table of the selection for each data set.
    statements
        Sentences on whether the numbers may be compared with the paper's.
    residue
        The residual shares of the audits.
    ranks, compared
        The tables of ranks, and of the comparison with the paper.
    scenarios
        The tables of the scenarios.
    """

    main: pd.DataFrame
    cases: Sequence[pd.DataFrame]
    rows: Sequence[Row]
    case_rows: Sequence[Row]
    grids: Sequence[pd.DataFrame]
    statements: Sequence[str]
    residue: Residue
    ranks: Sequence[pd.DataFrame] = ()
    compared: Sequence[pd.DataFrame] = ()
    scenarios: Sequence[TitledTable] = ()


def render_page(template: Path, **content: object) -> str:
    """Render the page as HTML. Text is escaped, except in tables, which are HTML already."""
    filters = {"linked": _link_docs, "html": _render_table, "terms": glossary.select_terms}
    return templates.render_template(template, content, filters)


def _link_docs(text: str) -> markupsafe.Markup:
    """Escape text, and turn references to pages of docs/ into links."""
    link = r'<a href="../../../\g<0>">\g<0></a>'  # relative to a folder of results/NAME
    escaped = str(markupsafe.escape(text))
    return markupsafe.Markup(re.sub(r"docs/[\w-]+\.md(#[\w-]+)?", link, escaped))


def _render_table(frame: pd.DataFrame) -> markupsafe.Markup:
    """Render a table as HTML, with the columns' meanings as tooltips, and long cells that wrap."""

    def add_meaning(cell: re.Match[str]) -> str:
        column = cell[1]
        meaning = glossary.find_meaning(column)
        if not meaning:
            return cell[0]
        return f'<th title="{markupsafe.escape(meaning)}">{column}</th>'

    html = re.sub("<th>(.*?)</th>", add_meaning, html_table(frame))
    html = re.sub(f"<td>(?=[^<]{{{LONG_CELL}}})", '<td class="words">', html)
    return markupsafe.Markup(html)


def make_audit_chapter(
    folder: Path, audit: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]
) -> AuditChapter:
    """Make the part on an audit: residual shares, controls, strata, traces in files, and attacks.

    Parameters
    ----------
    folder
        The folder with the audit's results, whose name is that of the data set.
    audit
        The rows of the audit's table.
    tidy
        The metrics of all systems, whose MIA is shown next to the attacks.
    """
    dataset = folder.name
    shown_rows = select_main_rows(audit)
    titled = [
        make_audit_table(shown_rows, dataset),
        make_strata_table(shown_rows, dataset),
        *make_storage_tables(read_table(folder / "storage.csv")),
    ]
    for attacks in make_attack_tables(read_table(folder / "attacks.csv"), tidy, rows):
        titled.append(attacks._replace(title=f"Attacks on one model: {attacks.title}"))
    files = [f"../audit/{dataset}/{name}.csv" for name in ("table", "storage", "attacks")]
    chapter = Chapter(dataset, dataset, titled, files=files)
    shares = _make_audit_figure(folder, "shares", SHARES, forest_plot(audit, theme.NARROW))
    strata = _make_audit_figure(folder, "strata", STRATA, strata_plot(audit, theme.NARROW))
    return AuditChapter(shares, strata, read_json(folder / "controls.json"), chapter)


def _make_audit_figure(folder: Path, name: str, caption: str, narrow: DrawnFigure) -> Figure:
    """Make a figure of an audit from the SVG file of its wide version, and its narrow version."""
    data = theme.make_data_url(folder / f"{name}.svg")
    file = f"../audit/{folder.name}/{name}.svg"
    return Figure("", caption, data, file, theme.make_data_url(narrow))


def make_story(points: Mapping[str, pd.DataFrame], main: pd.DataFrame) -> Chapter:
    """Make the part on which design to deploy, with the frontier's table for each data set.

    Parameters
    ----------
    points
        The results of `munkey.report.tables.frontier.make_points`, by data set.
    main
        The summary of the main experiment.
    """
    titled = []
    for dataset, part in points.items():
        remark = describe_underfit(main[main["dataset"] == dataset])
        titled.append(frontiers.make_frontier_table(part, "html")._replace(remark=remark))
    return Chapter("story", "Which design?", titled, [frontiers.RULE], [MAIN])


def make_chapters(results: PageResults) -> list[Chapter]:
    """Make the parts with tables, in the order of the page. Parts without a table are left out."""
    main = tables.make_main_tables(results.main, results.rows, "html", results.residue)
    parts = [Chapter("main", "Unlearning", main, files=[MAIN, "../metrics.csv"])]
    for ranks in results.ranks:
        ranked = make_rank_table(ranks.set_index(INDEX), results.rows)
        parts.append(Chapter("ranks", "Ranks", [ranked], [REMARK], ["../tables/ranks.csv"]))
    remark = "Other requests than random ones: docs/scenarios.md."
    parts.append(Chapter("scenarios", "Scenarios", results.scenarios, [remark]))
    runtime = make_runtime_table(results.main, results.rows, "html")
    parts.append(Chapter("runtime", "Run time", [runtime], files=[MAIN]))
    for cases in results.cases:
        for name, title in ABLATIONS.items():
            titled = list(ablations.TABLES[name](cases, results.case_rows, "html"))
            parts.append(Chapter(name, title, titled, files=["../tables/ablations.csv"]))
    selections = []
    files = []
    for grid in results.grids:
        dataset = grid["dataset"][0]
        selections.append(tables.make_selection_table(grid, dataset))
        files.append(f"../selection/{dataset}/table.csv")
    title = "Selection of p_image and p_token"
    parts.append(Chapter("selection", title, selections, files=files))
    for compared in results.compared:
        numbers = paper.make_tables(compared)
        file = "../tables/paper.csv"
        parts.append(Chapter("paper", "The paper's numbers", numbers, results.statements, [file]))
    return [chapter for chapter in parts if chapter.tables]


def make_figure(path: Path, main: pd.DataFrame) -> Figure:
    """Make a figure with its caption.

    Parameters
    ----------
    path
        The SVG file.
    main
        The summary of the main experiment, from which the narrow version of the gaps is drawn.
    """
    narrow = ""
    if path.stem == "forgetting":
        narrow = theme.make_data_url(gap_plot(main, PAPERS_METHOD, theme.NARROW))
    data = theme.make_data_url(path)
    return Figure(path.stem, get_caption(path.stem), data, f"../figures/{path.name}", narrow)


def make_frontier_figure(folder: Path, points: pd.DataFrame) -> Figure:
    """Make the figure of the frontier.

    Parameters
    ----------
    folder
        The folder with the audit's results, whose name is that of the data set.
    points
        The result of `munkey.report.tables.frontier.make_points` for this data set.
    """
    narrow = frontier_plot(points, theme.NARROW)
    drawn = _make_audit_figure(folder, "frontier", f"{FRONTIER} {folder.name}.", narrow)
    return drawn._replace(name=f"frontier-{folder.name}")


def describe_origin(records: Sequence[Mapping[str, Any]], date: str) -> dict[str, str]:
    """Describe where the results come from: the jobs' times, machines, commits and versions.

    Parameters
    ----------
    records
        The records of the jobs.
    date
        The time at which the page is written.
    """
    machines = set()
    commits = set()
    versions = set()
    for record in records:
        provenance = record["provenance"]
        machines.add(provenance["device"])
        commits.add(provenance["commit"])
        for name, version in provenance["versions"].items():
            versions.add(f"{name} {version}")
    started = min(record["started"] for record in records)
    ended = max(record["ended"] for record in records)
    return {
        "Report made": date,
        "Jobs ran": f"{started} to {ended} (UTC)",
        "Machine": ", ".join(sorted(machines)),
        "Commit": ", ".join(sorted(commits)),
        "Versions": ", ".join(sorted(versions)),
    }
