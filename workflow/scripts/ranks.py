"""Rank the methods by the gaps of every seed: a table, and a figure of critical differences."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_text
from munkey.experiment.run.job import job
from munkey.report.figures import ranks as figure
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD
from munkey.report.tables import rank_table
from munkey.report.tables.markup import render
from munkey.report.tables.summary import Row

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    output, rows = snakemake.output, [Row(**row) for row in snakemake.params.rows]
    ranks = rank_table.ranks(read_table(snakemake.input.metrics), rows)
    write_text(output.csv, ranks.to_csv())
    write_text(output.markdown, render([rank_table.table(ranks)], "markdown"))
    theme.save(figure.draw(ranks, PAPERS_METHOD), Path(output.svg).with_suffix(""))
