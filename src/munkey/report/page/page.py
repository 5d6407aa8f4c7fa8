"""The report, one page that opens from disk: the story first, then audits, sortable tables, figures, and its origin."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import markupsafe
import pandas as pd

from munkey.core import templates
from munkey.core.files import read_json, read_table
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD, caption
from munkey.report.figures.forgetting import gap_plot
from munkey.report.figures.frontier import frontier_plot
from munkey.report.figures.shares import forest_plot, strata_plot
from munkey.report.page import glossary
from munkey.report.tables import ablations, paper
from munkey.report.tables import frontier as frontiers
from munkey.report.tables import main as tables
from munkey.report.tables.audits import (
    Residue,
    attacks_tables,
    audit_table,
    first_rows,
    storage_tables,
    strata_table,
)
from munkey.report.tables.markup import Titled, html_table
from munkey.report.tables.ranks import LINE, REMARK, rank_table
from munkey.report.tables.runtime import runtime_table
from munkey.report.tables.summary import Row, underfit

LONG = 36  # letters of a cell that may break into lines: a sentence, no number with its interval
MAIN = "../tables/main.csv"  # from the page
FRONTIER = (
    "The frontier: residual share, over-forgetting left of 0, test accuracy, and the seconds that"
    " forgetting takes. Lines: 95 % intervals, and ± over seeds (of one seed, the 95 % interval over test samples)."
    " A design whose share is not known is not drawn."
)
SHARES = "Residual shares with their 95 % intervals, between never seen (0) and the original (100)"
STRATA = "Residual share by how much training on a sample had changed its answer, where that is enough to be a share of"
ABLATIONS = {
    "ablations": "Ablations",
    "aggregation": "Aggregation",
    "strategies": "Strategies",
    "fusion": "Fusion at inference alone",
    "encoders": "Encoders",
}


class Figure(NamedTuple):
    """A figure of the page. data, narrow: its SVG as a data URL, and one for a phone; file: its address."""

    name: str
    caption: str
    data: str
    file: str
    narrow: str = ""


class Chapter(NamedTuple):
    """A part of the page: remarks, then tables, whose cells are HTML. id: the anchor that links point to.

    files: the tables as CSV, by their addresses from the page.
    """

    id: str
    title: str
    tables: Sequence[Titled]
    remarks: Sequence[str] = ()
    files: Sequence[str] = ()


class AuditChapter(NamedTuple):
    """What the page shows of the audit of a data set.

    figure: the forest plot; strata: the same by memorization; controls: in words, by family.
    """

    figure: Figure
    strata: Figure
    controls: Mapping[str, Sequence[str]]
    chapter: Chapter


class PageResults(NamedTuple):
    """What the tables of the page are made from.

    main, cases: summaries of the main experiment and of the ablations. rows, case_rows: the systems in each. grids:
    the table of the selection for each data set. statements: whether the numbers may be compared with the paper's.
    residue: what audits found to be left. ranks, compared: from the CSV files of the ranks and of the comparison with
    the paper. scenarios: their tables. Of what was not made there is none.
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
    scenarios: Sequence[Titled] = ()


def rendered(template: Path, **content: object) -> str:
    """The page as HTML. Text is escaped; tables, which are HTML already, are not."""
    filters = {"linked": _linked, "html": _html, "terms": glossary.explained}
    return templates.rendered(template, content, filters)


def _linked(text: str) -> markupsafe.Markup:
    """Text whose pages of the docs are links, from a folder of results/NAME."""
    page = r'<a href="../../../\g<0>">\g<0></a>'
    return markupsafe.Markup(
        re.sub(r"docs/[\w-]+\.md(#[\w-]+)?", page, str(markupsafe.escape(text)))
    )


def _html(frame: pd.DataFrame) -> markupsafe.Markup:
    """A table whose heads say what they mean when a pointer rests on them, and whose long cells break into lines."""

    def head(found: re.Match[str]) -> str:
        what = glossary.of_column(found[1])
        return f'<th title="{markupsafe.escape(what)}">{found[1]}</th>' if what else found[0]

    headed = re.sub("<th>(.*?)</th>", head, html_table(frame))
    return markupsafe.Markup(re.sub(f"<td>(?=[^<]{{{LONG}}})", '<td class="words">', headed))


def audit_chapter(
    folder: Path, audit: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]
) -> AuditChapter:
    """An audit with its controls, strata, search of files, and attacks on one model.

    folder: of an audit, named for its data set; audit: rows of its table; tidy: metrics, of which the attacks need MIA.
    """
    dataset = folder.name
    shown_rows = first_rows(audit)
    titled = [
        audit_table(shown_rows, dataset),
        strata_table(shown_rows, dataset),
        *storage_tables(read_table(folder / "storage.csv")),
    ]
    for attacks in attacks_tables(read_table(folder / "attacks.csv"), tidy, rows):
        titled.append(attacks._replace(title=f"Attacks on one model: {attacks.title}"))
    files = [f"../audit/{dataset}/{name}.csv" for name in ("table", "storage", "attacks")]
    chapter = Chapter(dataset, dataset, titled, files=files)
    shares, strata = (
        Figure(
            "",
            words,
            theme.data_url(folder / f"{name}.svg"),
            f"../audit/{dataset}/{name}.svg",
            theme.data_url(plot(audit, theme.NARROW)),
        )
        for name, words, plot in (("shares", SHARES, forest_plot), ("strata", STRATA, strata_plot))
    )
    return AuditChapter(shares, strata, read_json(folder / "controls.json"), chapter)


def story(points: Mapping[str, pd.DataFrame], main: pd.DataFrame) -> Chapter:
    """The frontier's table for each data set. points: by data set, of `munkey.report.tables.frontier`."""
    shown = [
        frontiers.frontier_table(part, "html")._replace(
            remark=underfit(main[main["dataset"] == dataset])
        )
        for dataset, part in points.items()
    ]
    return Chapter("story", "Which design?", shown, [frontiers.RULE], [MAIN])


def chapters(results: PageResults) -> list[Chapter]:
    """The tables of the page in its order. What has none is left out."""
    selections = [tables.selection_table(grid, grid["dataset"][0]) for grid in results.grids]
    selection_files = [f"../selection/{grid['dataset'][0]}/table.csv" for grid in results.grids]
    main = tables.main_tables(results.main, results.rows, "html", results.residue)
    every = [
        Chapter("main", "Unlearning", main, files=[MAIN, "../metrics.csv"]),
        *(
            Chapter(
                "ranks",
                "Ranks",
                [rank_table(each.set_index(LINE), results.rows)],
                [REMARK],
                ["../tables/ranks.csv"],
            )
            for each in results.ranks
        ),
        Chapter(
            "scenarios",
            "Scenarios",
            results.scenarios,
            ["Other requests than random ones: docs/scenarios.md."],
        ),
        Chapter(
            "runtime", "Run time", [runtime_table(results.main, results.rows, "html")], files=[MAIN]
        ),
        *(
            Chapter(name, title, titled, files=["../tables/ablations.csv"])
            for cases in results.cases
            for name, title in ABLATIONS.items()
            if (titled := list(ablations.TABLES[name](cases, results.case_rows, "html")))
        ),
        Chapter("selection", "Selection of p_image and p_token", selections, files=selection_files),
        *(
            Chapter(
                "paper",
                "The paper's numbers",
                paper.tables(each),
                results.statements,
                ["../tables/paper.csv"],
            )
            for each in results.compared
        ),
    ]
    return [chapter for chapter in every if chapter.tables]


def figure(path: Path, main: pd.DataFrame) -> Figure:
    """A figure with its caption. path: its SVG; main: the summary from which that of the gaps is drawn narrow, too."""
    narrow = (
        theme.data_url(gap_plot(main, PAPERS_METHOD, theme.NARROW))
        if path.stem == "forgetting"
        else ""
    )
    return Figure(
        path.stem, caption(path.stem), theme.data_url(path), f"../figures/{path.name}", narrow
    )


def frontier(folder: Path, points: pd.DataFrame) -> Figure:
    """The figure of the frontier. folder: of an audit, as for `audit_chapter`."""
    dataset, path, narrow = (
        folder.name,
        folder / "frontier.svg",
        theme.data_url(frontier_plot(points, theme.NARROW)),
    )
    words, file = f"{FRONTIER} {dataset}.", f"../audit/{dataset}/{path.name}"
    return Figure(f"frontier-{dataset}", words, theme.data_url(path), file, narrow)


def origin(records: Sequence[Mapping[str, Any]], date: str) -> dict[str, str]:
    """Commit, versions, machine and times of the jobs, each value once. date: when the page is made."""
    origins = [record["provenance"] for record in records]
    started, ended = (
        min(record["started"] for record in records),
        max(record["ended"] for record in records),
    )
    return {
        "Report made": date,
        "Jobs ran": f"{started} to {ended} (UTC)",
        "Machine": ", ".join(sorted({origin["device"] for origin in origins})),
        "Commit": ", ".join(sorted({origin["commit"] for origin in origins})),
        "Versions": ", ".join(
            sorted(
                {
                    f"{name} {version}"
                    for origin in origins
                    for name, version in origin["versions"].items()
                }
            )
        ),
    }
