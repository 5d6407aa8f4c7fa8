"""Write down with which settings each case of a configuration is trained and asked."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.core.files import write_json
from munkey.experiment.run.job import job

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    write_json(snakemake.output.settings, snakemake.params.cases)
