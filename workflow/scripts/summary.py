"""Summarize for DVC: means by data set, rate and method; training curves; gap against time."""

from munkey.pipeline import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.core.files import read_table, write_csv, write_json
from munkey.pipeline.job import job
from munkey.report import summary

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    table = read_table(snakemake.input.tables)
    write_json(snakemake.output.metrics, summary.dvc_metrics(table))
    write_csv(snakemake.output.curves, summary.dvc_curves(snakemake.input.records))
    write_csv(snakemake.output.forgetting, summary.dvc_points(table), summary.POINT_COLUMNS)
