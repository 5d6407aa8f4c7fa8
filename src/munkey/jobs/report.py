"""The report: figures as SVG and PNG, and an HTML page."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from munkey.core.files import read_json, read_table, write_text
from munkey.report.figures import theme
from munkey.report.figures.charts import CHARTS, ChartSource
from munkey.report.figures.frontier import frontier_plot
from munkey.report.page import page as pages
from munkey.report.page.chapters import read_chapters
from munkey.report.tables import frontier as frontiers
from munkey.report.tables.comparisons import DIFFERENCES
from munkey.report.tables.frontier import Design
from munkey.report.tables.markup import render
from munkey.report.tables.shares import collect_residue
from munkey.report.tables.summary import Row, read_main


def chart(svg: Path, chart: str, inputs: Mapping[str, Any]) -> None:
    """Draw a chart.

    Parameters
    ----------
    chart
        The name of the chart, KIND or KIND-DATASET.
    inputs
        The files by their names in CHARTS.
    """
    kind, _, dataset = chart.partition("-")
    figure = CHARTS[kind].draw(ChartSource(inputs, dataset))
    theme.save(figure, svg.with_suffix(""))


def frontier(
    main_table: Path,
    differences: Path,
    audit_table: Path,
    dataset: str,
    designs: list[Design],
    csv: Path,
    markdown: Path,
    svg: Path,
) -> None:
    """Compare designs by residual share, accuracy and time, in sentences, a table and a figure."""
    audits = {dataset: read_table(audit_table)}
    main = read_main(main_table, differences)
    points = frontiers.collect_all_points(main, audits, designs)[dataset]
    # `method` equals `name`, and the reason of an unknown share is its `share_text`.
    table_columns = points.drop(columns=["method", "unknown_because", DIFFERENCES])
    write_text(csv, table_columns.to_csv(index=False))
    introduction = f"{frontiers.describe_frontier(points)}\n\n{frontiers.RULE}\n\n"
    table = render([frontiers.make_frontier_table(points, "markdown")], "markdown")
    write_text(markdown, introduction + table)
    theme.save(frontier_plot(points), svg.with_suffix(""))


@dataclass(frozen=True)
class PageFiles:
    """The files that the report shows.

    Attributes
    ----------
    ranks
        A list with one table, or an empty list if there is none.
    audits
        A table for each data set that has one, in a folder with the name of the data set.
    chapters
        The chapters of studies.
    records
        The records of jobs, for the origin of the results.
    explored
        The pages that show single samples, one for each data set.
    """

    main_table: Path
    differences: Path
    figures: list[Path]
    ranks: list[Path]
    audits: list[Path]
    records: list[Path]
    explored: list[Path]
    chapters: list[Path]
    tracking: Path


@dataclass(frozen=True)
class ReportFacts:
    """The experiment as the report describes it, and the rows of its tables.

    Attributes
    ----------
    grid
        A sentence on seeds, rates and methods.
    captions
        The captions of figures by name.
    config
        All parameters.
    """

    name: str
    grid: str
    rows: list[Row]
    designs: list[Design]
    datasets: list[str]
    captions: Mapping[str, str]
    config: Mapping[str, Any]


def page(page: Path, template: Path, files: PageFiles, shown: ReportFacts) -> None:
    """Write the report: one page with tables, figures and their origin."""
    main = read_main(files.main_table, files.differences)
    audits = {path.parent: read_table(path) for path in files.audits}
    results = pages.PageResults(
        main,
        rows=shown.rows,
        residue=collect_residue(audits),
        ranks=list(map(read_table, files.ranks)),
    )
    audit_by_dataset = {folder.name: audit for folder, audit in audits.items()}
    points = frontiers.collect_all_points(main, audit_by_dataset, shown.designs)
    advice = []
    sentences = []
    for dataset, dataset_points in points.items():
        advice.append(f"{dataset}: {frontiers.recommend_design(dataset_points)}")
        sentences.append(f"{dataset}: {frontiers.describe_frontier(dataset_points)}")
    frontier_figures = []
    for folder in audits:
        frontier_figures.append(pages.make_frontier_figure(folder, points[folder.name]))
    tracked_runs = read_json(files.tracking)["runs"]
    settings = {name: value for name, value in shown.config.items() if name != "tracking"}
    text = pages.render_page(
        template,
        name=shown.name,
        datasets=shown.datasets,
        grid=shown.grid,
        advice=advice,
        sentences=sentences,
        story=pages.make_story(points, main),
        frontiers=frontier_figures,
        chapters=[*pages.make_chapters(results), *read_chapters(files.chapters)],
        explored=[path.stem for path in files.explored],
        figures=[
            pages.make_figure(path, shown.captions[path.stem], main) for path in files.figures
        ],
        origin=pages.describe_origin(list(map(read_json, files.records))),
        runs=[run for run in tracked_runs if run["page"]],  # empty if tracking failed
        params=yaml.safe_dump(settings),  # sorted: the order of overlays must not matter
    )
    write_text(page, text)
