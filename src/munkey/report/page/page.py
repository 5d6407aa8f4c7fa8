"""The report: a single HTML page with the main findings, audits, sortable tables, figures, and provenance."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import markupsafe
import pandas as pd

from munkey.core import templates
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD
from munkey.report.figures.forgetting import gap_plot
from munkey.report.figures.frontier import frontier_plot
from munkey.report.page import glossary
from munkey.report.page.chapters import Chapter, Figure
from munkey.report.tables import frontier as frontiers
from munkey.report.tables import main as tables
from munkey.report.tables.markup import render_html_table
from munkey.report.tables.ranks import INDEX, REMARK, make_rank_table
from munkey.report.tables.runtime import runtime_table
from munkey.report.tables.summary import Residue, Row, describe_underfitting

LONG_CELL = 36  # characters; longer cells contain sentences, so their lines may wrap
MAIN = "../tables/main.csv"  # relative to the page
FRONTIER = (
    "The frontier: each design's test accuracy, the seconds that forgetting takes, by how much deleted samples score"
    " higher than samples never seen, in normal scores (below 0: over-forgotten), and how well an attack tells the two"
    " apart (50: not at all). Bars: 95% intervals, and ± over seeds for accuracies (with one seed, the 95% interval"
    " over test samples). Bold: no more accurate design has a residual share whose interval ends as close to 0. Hollow:"
    " flagged only by an attack, so the share has no bound. Designs with an unknown share are not drawn."
)


class PageResults(NamedTuple):
    """The results of the main run that the page's tables are generated from.

    Attributes
    ----------
    main
        The summary of the main experiment.
    rows
        The systems in `main`.
    residue
        The residual shares from audits.
    ranks
        The ranks, as read from their CSV file.
    """

    main: pd.DataFrame
    rows: Sequence[Row]
    residue: Residue
    ranks: Sequence[pd.DataFrame] = ()


def render_page(template: Path, **content: object) -> str:
    """Render the page as HTML. Text is escaped, but tables are not, because they are already HTML."""
    filters = {"linked": _link_docs, "html": _render_table, "terms": glossary.select_terms}
    return templates.render_template(template, content, filters)


def _link_docs(text: str) -> markupsafe.Markup:
    """Escape text, and turn paths of pages in docs/ into links."""
    link = r'<a href="../../../\g<0>">\g<0></a>'  # relative to a folder in results/NAME
    escaped = str(markupsafe.escape(text))
    return markupsafe.Markup(re.sub(r"docs/[\w-]+\.md(#[\w-]+)?", link, escaped))


def _render_table(frame: pd.DataFrame) -> markupsafe.Markup:
    """Render a table as HTML. Columns have tooltips with their meanings, and long cells wrap."""

    def add_meaning(cell: re.Match[str]) -> str:
        column = cell[1]
        meaning = glossary.find_meaning(column)
        if not meaning:
            return cell[0]
        return f'<th title="{markupsafe.escape(meaning)}">{column}</th>'

    html = re.sub("<th>(.*?)</th>", add_meaning, render_html_table(frame))
    html = re.sub(f"<td>(?=[^<]{{{LONG_CELL}}})", '<td class="words">', html)
    return markupsafe.Markup(html)


def make_story(points: Mapping[str, pd.DataFrame], main: pd.DataFrame) -> Chapter:
    """Return the chapter with the frontier table of each data set.

    Parameters
    ----------
    points
        The results of `munkey.report.tables.frontier.collect_points`, by data set.
    main
        The summary of the main experiment.
    """
    frontier_tables = []
    for dataset, dataset_points in points.items():
        remark = describe_underfitting(main[main["dataset"] == dataset])
        table = frontiers.make_frontier_table(dataset_points, "html")
        frontier_tables.append(table._replace(remark=remark))
    return Chapter(
        id="story",
        title="Which design?",
        tables=frontier_tables,
        remarks=[frontiers.RULE],
        files=[MAIN],
    )


def make_chapters(results: PageResults) -> list[Chapter]:
    """Return the chapters of the main run in order. Chapters without a table are left out."""
    main = tables.make_main_tables(results.main, results.rows, "html", results.residue)
    parts = [Chapter("main", "Unlearning", main, files=[MAIN, "../metrics.csv"])]
    for ranks in results.ranks:
        ranked = make_rank_table(ranks.set_index(INDEX), results.rows)
        parts.append(Chapter("ranks", "Ranks", [ranked], [REMARK], ["../tables/ranks.csv"]))
    runtime = runtime_table(results.main, results.rows, "html")
    parts.append(Chapter("runtime", "Run time", [runtime], files=[MAIN]))
    return [chapter for chapter in parts if chapter.tables]


def make_figure(path: Path, caption: str, main: pd.DataFrame) -> Figure:
    """Return a figure with its caption.

    Parameters
    ----------
    path
        The SVG file.
    main
        The summary of the main experiment, from which a narrow version of the figure of gaps is
        drawn.
    """
    narrow = ""
    if path.stem == "forgetting":
        narrow = theme.make_data_url(gap_plot(main, PAPERS_METHOD, theme.NARROW))
    return Figure(
        name=path.stem,
        caption=caption,
        data=theme.make_data_url(path),
        file=f"../figures/{path.name}",
        narrow=narrow,
    )


def make_frontier_figure(folder: Path, points: pd.DataFrame) -> Figure:
    """Return the figure of the frontier.

    Parameters
    ----------
    folder
        The folder of the audit's results, named after the data set.
    points
        The result of `munkey.report.tables.frontier.collect_points` for its data set.
    """
    return Figure(
        name=f"frontier-{folder.name}",
        caption=f"{FRONTIER} {folder.name}.",
        data=theme.make_data_url(folder / "frontier.svg"),
        file=f"../audit/{folder.name}/frontier.svg",
        narrow=theme.make_data_url(frontier_plot(points, theme.NARROW)),
    )


def describe_origin(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the distinct commits, versions and machines of jobs, and when they ran, as text."""
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
        "Jobs ran": f"{started} to {ended} (UTC)",
        "Machine": ", ".join(sorted(machines)),
        "Commit": ", ".join(sorted(commits)),
        "Versions": ", ".join(sorted(versions)),
    }
