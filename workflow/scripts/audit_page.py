"""Show the audits of all data sets on one page."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.experiment.run.job import job
from munkey.report.page import page
from munkey.report.tables.audits import storage_tables
from munkey.report.tables.summary import Row, read_metrics

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    inputs, params = snakemake.input, snakemake.params
    rows, shown = [Row(**row) for row in params.rows], []
    for number, dataset in enumerate(params.datasets):
        metrics = read_metrics([inputs.metrics[number]])
        attacks = page.attacks_of(read_table(inputs.attacks[number]), metrics, rows)
        further = [*storage_tables(read_table(inputs.storage[number])), *attacks]
        files = (inputs.controls[number], inputs.figures[number])
        shown.append(page.audit_chapter(dataset, read_table(inputs.tables[number]), *files, further))
    write_text(snakemake.output.page, page.audit_page(params.name, shown, Path(inputs.template)))
