"""Rank the methods by the gaps of every seed: a table, and a figure of critical differences."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.experiment.run.job import job
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD
from munkey.report.figures.ranks import rank_diagram
from munkey.report.tables.markup import render
from munkey.report.tables.ranks import rank_table, ranks_by_title
from munkey.report.tables.summary import Row

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    output, rows = snakemake.output, [Row(**row) for row in snakemake.params.rows]
    ranks = ranks_by_title(read_table(snakemake.input.metrics), rows)
    write_text(output.csv, ranks.to_csv())
    write_text(output.markdown, render([rank_table(ranks)], "markdown"))
    theme.save(rank_diagram(ranks, PAPERS_METHOD), Path(output.svg).with_suffix(""))
