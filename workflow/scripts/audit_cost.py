"""Draw forgetting against its cost: what is left of what was deleted, and the seconds of each method."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_table
from munkey.experiment.run.job import job
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD
from munkey.report.figures.shares import cost_plot

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    inputs, dataset = snakemake.input, snakemake.wildcards.dataset
    main = read_table(inputs.main)
    drawn = cost_plot(main[main["dataset"] == dataset], read_table(inputs.audit), PAPERS_METHOD)
    theme.save(drawn, Path(snakemake.output.svg).with_suffix(""))
