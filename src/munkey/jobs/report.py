"""The report: figures, each as SVG and PNG, pages in HTML, and the summary for DVC."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from munkey.core.files import atomic, read_json, read_npz, read_table, write_text
from munkey.data import forget_sets, prepared
from munkey.experiment.run.job import now
from munkey.memory import neighbors
from munkey.report.figures import theme
from munkey.report.figures.charts import CHARTS, PAPERS_METHOD, ChartSource
from munkey.report.figures.examples import Deletion, Snapshot, examples
from munkey.report.figures.forgetting import gap_plot
from munkey.report.figures.losses import loss_curves
from munkey.report.figures.retrieval import retrieval_plot
from munkey.report.figures.shares import cost_plot
from munkey.report.page import page as pages
from munkey.report.tables import paper
from munkey.report.tables import summary as summaries
from munkey.report.tables.ablations import read
from munkey.report.tables.audits import residue_of, storage_tables
from munkey.report.tables.summary import Row, read_metrics
from munkey.settings import InferenceSettings


def chart(
    svg: Path,
    kind: str,
    dataset: str | None,
    seeds: list[int],
    threshold: float,
    inputs: Mapping[str, Path | list[Path]],
) -> None:
    """Draw one chart. kind: in munkey.report.figures.charts; inputs: files by name, as `traces` one for each seed."""
    traces = inputs.get("traces", [])
    source = ChartSource(
        {name: path for name, path in inputs.items() if isinstance(path, Path)},
        dataset,
        threshold,
        dict(zip(seeds, traces, strict=True)) if isinstance(traces, list) and traces else {},
    )
    theme.save(CHARTS[kind].draw(source), svg.with_suffix(""))


def retrieval(
    images: Path,
    forget: Path,
    full: Path,
    left: Path,
    before: Path,
    after: Path,
    svg: Path,
    inference: InferenceSettings,
) -> None:
    """Draw which neighbors a test sample and a forget sample retrieve, before and after deletion.

    full, left: neighbors in the whole memory and in what is left of it; before, after: logits.
    """
    dataset = prepared.load(images.parent)
    snapshots = (
        Snapshot(neighbors.read(near, dataset.ids), read_npz(logits, "logits")["logits"])
        for near, logits in ((full, before), (left, after))
    )
    deletion = Deletion(dataset, forget_sets.read(forget), *snapshots)
    theme.save(retrieval_plot(examples(deletion, inference)), svg.with_suffix(""))


def audit_cost(main_table: Path, audit_table: Path, svg: Path, dataset: str) -> None:
    """Draw forgetting against its cost: what is left of what was deleted, and the seconds of each method."""
    main = read_table(main_table)
    drawn = cost_plot(main[main["dataset"] == dataset], read_table(audit_table), PAPERS_METHOD)
    theme.save(drawn, svg.with_suffix(""))


def summary(main_table: Path, records: list[Path], methods: Path, losses_svg: Path, forgetting_svg: Path) -> None:
    """Summarize for DVC: a file of metrics for each method, and pictures of training losses and of gap against time."""
    table = read_table(main_table)
    for name, metrics in summaries.methods(table).items():
        # In a folder and without checksums: DVC would show what else there is as metrics too.
        with atomic(methods / "means" / f"{name}.json") as file:
            file.write_text(json.dumps(metrics, indent=2) + "\n")
    theme.save(loss_curves(summaries.training_losses(records)), losses_svg.with_suffix(""))
    theme.save(gap_plot(table, PAPERS_METHOD), forgetting_svg.with_suffix(""))


def page(
    page: Path,
    template: Path,
    main_table: Path,
    ablations: list[Path],
    comparison: list[Path],
    selections: list[Path],
    figures: list[Path],
    ranks: list[Path],
    audits: list[Path],
    controls: list[Path],
    shares: list[Path],
    costs: list[Path],
    storage: list[Path],
    records: list[Path],
    tracking: Path,
    name: str,
    grid: str,
    rows: list[Row],
    ablation_rows: list[Row],
    settings: Mapping[str, Mapping[str, Any]],
    seeds: int,
    audited: list[str],
    config: Mapping[str, Any],
) -> None:
    """Make the report: tables, figures and what they came from, on one page.

    ablations, comparison, ranks: their table, if it was made; audits, controls, shares, costs, storage: one for each
    data set in `audited`; settings: what is compared with the paper's; grid: seeds, rates and methods in words.
    """
    main = read(main_table)
    by_dataset = dict(zip(audited, map(read_table, audits), strict=True))
    cases, grids, ranked = ([*map(read, paths)] for paths in (ablations, selections, ranks))
    said, compared, left = paper.statements(settings, seeds), [*map(paper.read, comparison)], residue_of(by_dataset)
    results = pages.PageResults(main, cases, rows, ablation_rows, grids, said, left, ranked, compared)
    text = pages.rendered(
        template,
        name=name,
        datasets=list(settings),
        grid=grid,
        story=pages.story(results),
        costs=[pages.cost(*each, main) for each in zip(audited, by_dataset.values(), costs, strict=True)],
        audits=[*map(pages.audit_in_report, by_dataset, by_dataset.values(), storage, controls, shares)],
        chapters=pages.chapters(results),
        figures=[pages.figure(path, main) for path in figures],
        origin=pages.origin([read_json(path) for path in records], now()),
        runs=pages.links(read_json(tracking)["runs"]),
        params=yaml.safe_dump(dict(config), sort_keys=False),
    )
    write_text(page, text)


def audit_page(
    page: Path,
    template: Path,
    tables: list[Path],
    controls: list[Path],
    figures: list[Path],
    storage: list[Path],
    attacks: list[Path],
    metrics: list[Path],
    name: str,
    datasets: list[str],
    rows: list[Row],
) -> None:
    """Show the audits of all data sets on one page. Of each kind of file, one for each data set."""
    shown = []
    for number, dataset in enumerate(datasets):
        own = pages.attacks_of(read_table(attacks[number]), read_metrics([metrics[number]]), rows)
        further = [*storage_tables(read_table(storage[number])), *own]
        files = (controls[number], figures[number])
        shown.append(pages.audit_chapter(dataset, read_table(tables[number]), *files, further))
    write_text(page, pages.rendered(template, name=name, audits=shown))
