"""Make the main table once more, with what the audits found to be left."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.experiment.run.job import job
from munkey.report.tables import main
from munkey.report.tables.audits import residue_of
from munkey.report.tables.markup import markup_of
from munkey.report.tables.summary import Row

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    inputs, params = snakemake.input, snakemake.params
    summary, rows = read_table(inputs.main), [Row(**row) for row in params.rows]
    residue = residue_of(dict(zip(params.datasets, map(read_table, inputs.audits), strict=True)))
    for path in snakemake.output:
        write_text(path, main.main_table(summary, rows, markup_of(path), residue))
