"""Make the CSV of every metric and the tables that show it."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.core.files import write_text
from munkey.experiment.run.job import job
from munkey.report.tables import main
from munkey.report.tables.summary import Row, read_metrics

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    rows = [Row(**row) for row in snakemake.params.rows]
    for output, text in main.all_texts(read_metrics(snakemake.input.metrics), rows).items():
        write_text(snakemake.output.get(output), text)
