"""Show an audit's grid: its table and its figure."""

from munkey.pipeline import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.pipeline.job import job
from munkey.report import audit_grid
from munkey.report.figures import kept, theme
from munkey.report.markup import render

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    found, output = read_table(snakemake.input.table), snakemake.output
    titled = [audit_grid.table(found, snakemake.wildcards.dataset)]
    write_text(output.markdown, render(titled, "markdown"))
    write_text(output.latex, render(titled, "latex"))
    theme.save(kept.draw(found), Path(output.svg).with_suffix(""))
