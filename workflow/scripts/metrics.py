"""All metrics of a data set, from logits and records: one tidy CSV."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.core.console import progress
from munkey.core.files import write_csv
from munkey.evaluation.metrics import measured
from munkey.evaluation.records import Evaluation
from munkey.experiment.run.job import job

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    runs = [Evaluation(**run) for run in snakemake.params.runs]
    write_csv(snakemake.output.metrics, [line for run in progress(runs, "system", "systems") for line in measured(run)])
