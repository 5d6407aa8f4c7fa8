"""Export a trained MUNKEY to a directory that can be used anywhere."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.deploy.model.export import renew
from munkey.experiment.run.job import job

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    directory = renew(snakemake.input.system, Path(snakemake.output.manifest).parent, snakemake.params.sections)
    print(f"exported to {directory}")
