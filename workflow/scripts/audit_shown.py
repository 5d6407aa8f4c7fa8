"""Show an audit: its table, and its shares as a forest plot."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.experiment.run.job import job
from munkey.report.figures import theme
from munkey.report.figures.shares import forest_plot
from munkey.report.tables.audits import audit_table, first_rows
from munkey.report.tables.markup import render

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    found, output = read_table(snakemake.input.table), snakemake.output
    shown = [audit_table(first_rows(found), snakemake.wildcards.dataset)]
    write_text(output.markdown, render(shown, "markdown"))
    write_text(output.latex, render(shown, "latex"))
    theme.save(forest_plot(found), Path(output.svg).with_suffix(""))
