"""Compare every system's relearning with its oracle's: curves, table and figure."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import write_text
from munkey.experiment.run.job import job
from munkey.report.figures import theme
from munkey.report.figures.relearning import relearning_plot
from munkey.report.tables import relearning
from munkey.report.tables.markup import render

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    output = snakemake.output
    curves = relearning.curves_of(snakemake.params.systems, snakemake.params.seeds)
    found = relearning.findings(curves)
    write_text(output.curves, curves.to_csv(index=False))
    write_text(output.table, found.to_csv(index=False))
    shown = [relearning.table(found, curves, snakemake.wildcards.dataset)]
    write_text(output.markdown, render(shown, "markdown"))
    write_text(output.latex, render(shown, "latex"))
    theme.save(relearning_plot(curves), Path(output.svg).with_suffix(""))
