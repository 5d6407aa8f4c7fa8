"""Show an audit: its table, and its shares as a forest plot."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.experiment.run.job import job
from munkey.report.figures import forest, theme
from munkey.report.tables import audits
from munkey.report.tables.markup import render

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    found, output = read_table(snakemake.input.table), snakemake.output
    shown = [audits.table(audits.shown(found), snakemake.wildcards.dataset)]
    write_text(output.markdown, render(shown, "markdown"))
    write_text(output.latex, render(shown, "latex"))
    theme.save(forest.draw(found), Path(output.svg).with_suffix(""))
