"""Draw one chart from tables or a trace; its kind says which."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.experiment.run.job import job
from munkey.report.figures import theme
from munkey.report.figures.charts import CHARTS, Source

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    params = snakemake.params
    files = {name: path for name, path in snakemake.input.items() if name != "traces"}
    traces = dict(zip(params.seeds, snakemake.input.get("traces", []), strict=False))  # none, or one for each seed
    source = Source(files, params.dataset, params.threshold, traces)
    theme.save(CHARTS[params.kind].draw(source), Path(snakemake.output.svg).with_suffix(""))
