"""Make the tables of the ablations, and one CSV of their numbers."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import write_text
from munkey.experiment.run.job import job
from munkey.report.tables import ablations
from munkey.report.tables.markup import markup_of, render_or_say
from munkey.report.tables.summary import Row, read_metrics

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    rows = [Row(**row) for row in snakemake.params.rows]
    summary = ablations.summarize_cases(read_metrics(snakemake.input.metrics), rows)
    write_text(snakemake.output.summary, summary.to_csv(index=False))
    for path in map(Path, snakemake.output.tables):
        markup = markup_of(path)
        write_text(path, render_or_say(list(ablations.TABLES[path.stem](summary, rows, markup)), markup))
