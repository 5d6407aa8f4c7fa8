"""Look for traces of what was deleted in the files of unlearned systems and of their originals."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.audits.main_run import STORAGE_COLUMNS, storage_lines
from munkey.core.console import progress
from munkey.core.files import read_table, write_csv, write_text
from munkey.experiment.run.job import job
from munkey.report.tables import audits
from munkey.report.tables.markup import render_or_say

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    output, systems = snakemake.output, progress(snakemake.params.systems, "system", "systems")
    write_csv(output.table, [line for each in systems for line in storage_lines(each)], STORAGE_COLUMNS)
    shown = audits.storage_tables(read_table(output.table))
    write_text(output.markdown, render_or_say(shown, "markdown"))
    write_text(output.latex, render_or_say(shown, "latex"))
