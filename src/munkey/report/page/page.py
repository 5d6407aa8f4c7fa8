"""The report, one page that opens from disk: the story first, then audits, sortable tables, figures, and its origin."""

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

LONG = 36  # letters of a cell that may break into lines: a sentence, no number with its interval
MAIN = "../tables/main.csv"  # from the page
FRONTIER = (
    "The frontier: residual share (negative: over-forgotten), test accuracy, and the seconds that forgetting takes."
    " Bars: 95 % intervals, and ± over seeds for accuracies (with one seed, the 95 % interval over test samples)."
    " Dashed: the highest accuracy of any design with at most that share. Hollow: only an attack flagged it, so"
    " no bound holds. Designs whose share is not known are not drawn."
)
SHARES = "Residual shares with their 95 % intervals, between never seen (0) and the original (100)"
STRATA = "Residual share by how much training on a sample had changed its answer; without samples it hardly changed"
ABLATIONS = {
    "ablations": "Ablations",
    "aggregation": "Aggregation",
    "strategies": "Strategies",
    "fusion": "Fusion at inference alone",
    "encoders": "Encoders",
}


class Figure(NamedTuple):
    """A figure of the page.

    Attributes
    ----------
    data, narrow
        Its SVG as a data URL, and one for a phone.
    file
        Its address.
    """

    name: str
    get_caption: str
    data: str
    file: str
    narrow: str = ""


class Chapter(NamedTuple):
    """A part of the page: remarks, then tables, whose cells are HTML.

    Attributes
    ----------
    id
        The anchor that links point to.
    files
        The tables as CSV, by their addresses from the page.
    """

    id: str
    title: str
    tables: Sequence[TitledTable]
    remarks: Sequence[str] = ()
    files: Sequence[str] = ()


class AuditChapter(NamedTuple):
    """The page's part on the audit of a data set.

    Attributes
    ----------
    figure
        The forest plot.
    strata
        The same by memorization.
    controls
        In words, by family.
    """

    make_figure: Figure
    strata: Figure
    controls: Mapping[str, Sequence[str]]
    chapter: Chapter


class PageResults(NamedTuple):
    """The results that the tables of the page are made from.

    A sequence is empty if its part was not run.

    Attributes
    ----------
    main, cases
        Summaries of the main experiment and of the ablations.
    rows, case_rows
        The systems in each.
    grids
        The table of the selection for each data set.
    statements
        Whether the numbers may be compared with the paper's.
    residue
        Residual shares from audits.
    ranks, compared
        From the CSV files of the ranks and of the comparison with the paper.
    scenarios
        Their tables.
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
    """Return the page as HTML. Text is escaped; tables, which are HTML already, are not."""
    filters = {"linked": _link_docs, "html": _render_table, "terms": glossary.select_terms}
    return templates.render_template(template, content, filters)


def _link_docs(text: str) -> markupsafe.Markup:
    """Escape text and turn the pages of docs/ that it names into links."""
    link = r'<a href="../../../\g<0>">\g<0></a>'  # from a folder of results/NAME
    escaped = str(markupsafe.escape(text))
    return markupsafe.Markup(re.sub(r"docs/[\w-]+\.md(#[\w-]+)?", link, escaped))


def _render_table(frame: pd.DataFrame) -> markupsafe.Markup:
    """Return a table as HTML with two additions.

    A column's head shows its meaning when a pointer rests on it, and long cells break into lines.
    """

    def add_meaning(cell: re.Match[str]) -> str:
        column = cell[1]
        meaning = glossary.find_meaning(column)
        if not meaning:
            return cell[0]
        return f'<th title="{markupsafe.escape(meaning)}">{column}</th>'

    html = re.sub("<th>(.*?)</th>", add_meaning, html_table(frame))
    html = re.sub(f"<td>(?=[^<]{{{LONG}}})", '<td class="words">', html)
    return markupsafe.Markup(html)


def make_audit_chapter(
    folder: Path, audit: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]
) -> AuditChapter:
    """Return an audit with its controls, strata, search of files, and attacks on one model.

    Parameters
    ----------
    folder
        The folder of the audit's results, named for its data set.
    audit
        Rows of the audit's table.
    tidy
        The metrics of all systems; the attacks need MIA.
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
    shares = _audit_figure(folder, "shares", SHARES, forest_plot(audit, theme.NARROW))
    strata = _audit_figure(folder, "strata", STRATA, strata_plot(audit, theme.NARROW))
    return AuditChapter(shares, strata, read_json(folder / "controls.json"), chapter)


def _audit_figure(folder: Path, name: str, words: str, narrow: DrawnFigure) -> Figure:
    """Return a figure of an audit, wide as its file has it, and narrow as drawn.

    Parameters
    ----------
    words
        Its caption.
    """
    data = theme.make_data_url(folder / f"{name}.svg")
    file = f"../audit/{folder.name}/{name}.svg"
    return Figure("", words, data, file, theme.make_data_url(narrow))


def make_story(points: Mapping[str, pd.DataFrame], main: pd.DataFrame) -> Chapter:
    """Return the frontier's table for each data set.

    Parameters
    ----------
    points
        The results of `munkey.report.tables.frontier.frontier` by data set.
    main
        Summary of the main experiment.
    """
    titled = []
    for dataset, part in points.items():
        remark = describe_underfit(main[main["dataset"] == dataset])
        titled.append(frontiers.make_frontier_table(part, "html")._replace(remark=remark))
    return Chapter("story", "Which design?", titled, [frontiers.RULE], [MAIN])


def make_chapters(results: PageResults) -> list[Chapter]:
    """Return the tables of the page in its order. Chapters without a table are left out."""
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
    """Return a figure with its caption.

    Parameters
    ----------
    path
        Its SVG.
    main
        Summary of the main experiment. A narrow version of the figure of the gaps is drawn from it.
    """
    narrow = ""
    if path.stem == "forgetting":
        narrow = theme.make_data_url(gap_plot(main, PAPERS_METHOD, theme.NARROW))
    data = theme.make_data_url(path)
    return Figure(path.stem, get_caption(path.stem), data, f"../figures/{path.name}", narrow)


def make_frontier_figure(folder: Path, points: pd.DataFrame) -> Figure:
    """Return the figure of the frontier.

    Parameters
    ----------
    folder
        The folder of the audit's results, as for `audit_chapter`.
    points
        The result of `munkey.report.tables.frontier.frontier` for its data set.
    """
    narrow = frontier_plot(points, theme.NARROW)
    drawn = _audit_figure(folder, "frontier", f"{FRONTIER} {folder.name}.", narrow)
    return drawn._replace(name=f"frontier-{folder.name}")


def describe_origin(records: Sequence[Mapping[str, Any]], date: str) -> dict[str, str]:
    """Return the commits, versions, machines and times of the jobs in words, each value once.

    Parameters
    ----------
    records
        The records of the jobs.
    date
        When the page is made.
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
