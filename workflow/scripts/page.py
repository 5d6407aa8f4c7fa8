"""Make the report: tables, figures and what they came from, on one page."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from munkey.core.files import read_json, read_table, write_text
from munkey.experiment.run.job import job, now
from munkey.report.page import page
from munkey.report.tables import paper
from munkey.report.tables.ablations import read
from munkey.report.tables.audits import residue_of
from munkey.report.tables.summary import Row

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    inputs, params = snakemake.input, snakemake.params
    (main, cases), grids, ranks = ([*map(read, inputs.get(name))] for name in ("tables", "selections", "ranks"))
    rows, case_rows = ([Row(**row) for row in listed] for listed in (params.rows, params.ablation_rows))
    audited = dict(zip(params.audited, map(read_table, inputs.audits), strict=True))
    statements, residue = paper.statements(params.settings, params.seeds), residue_of(audited)
    results = page.Results(main, cases, rows, case_rows, grids, statements, residue, ranks)
    content = page.Page(
        heading=page.Heading(params.name, list(params.settings), params.grid),
        story=page.story(results),
        costs=[*map(page.cost, audited, map(Path, inputs.costs))],
        audits=[*map(page.audit_in_report, audited, audited.values(), inputs.storage, inputs.controls, inputs.shares)],
        chapters=page.chapters(results),
        figures=[page.figure(Path(path)) for path in inputs.figures],
        origin=page.origin([read_json(path) for path in inputs.records], now()),
        runs=page.links(read_json(inputs.tracking)["runs"]),
        params=yaml.safe_dump(params.config, sort_keys=False),
    )
    write_text(snakemake.output.page, page.report_page(content, Path(inputs.template)))
