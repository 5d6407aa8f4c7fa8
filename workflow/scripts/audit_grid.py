"""What the weights keep: residual shares over a grid of knobs."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

import pandas as pd

from munkey.audits.grid import grid_lines
from munkey.core.console import progress
from munkey.core.files import write_text
from munkey.data import forget_sets
from munkey.experiment.run.job import job

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    settings, forgotten = snakemake.params.settings, [forget_sets.read(path) for path in snakemake.input.halves]
    found = grid_lines(settings, snakemake.params.paths, forgotten)
    lines = [line for lines in progress(found, "setting", "settings") for line in lines]
    write_text(snakemake.output.table, pd.DataFrame(lines).to_csv(index=False))
