"""Show an audit's grid: its table and its figure."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.experiment.run.job import job
from munkey.report.figures import theme
from munkey.report.figures.audit_grid import grid_plot
from munkey.report.tables.audits import grid_table
from munkey.report.tables.markup import render

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    found, output = read_table(snakemake.input.table), snakemake.output
    titled = [grid_table(found, snakemake.wildcards.dataset)]
    write_text(output.markdown, render(titled, "markdown"))
    write_text(output.latex, render(titled, "latex"))
    theme.save(grid_plot(found), Path(output.svg).with_suffix(""))
