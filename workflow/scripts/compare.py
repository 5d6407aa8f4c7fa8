"""Put the numbers printed in the paper beside ours, and say whether they may be compared."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.experiment.run.job import job
from munkey.report.tables import ablations, paper

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    both = paper.compare(read_table(snakemake.input.main), ablations.read(snakemake.input.ablations))
    statements = paper.statements(snakemake.params.settings, snakemake.params.seeds)
    for output, text in paper.all_texts(both, statements).items():
        write_text(snakemake.output.get(output), text)
