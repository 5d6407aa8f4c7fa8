"""Summarize for DVC: a file of metrics for each method, and pictures of training losses and of gap against time."""

from munkey.experiment.run import fork_server

fork_server.start()

import json
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import atomic, read_table
from munkey.experiment.run.job import job
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD
from munkey.report.figures.forgetting import gap_plot
from munkey.report.figures.losses import loss_curves
from munkey.report.tables import summary

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, output = snakemake.input, snakemake.output
    table = read_table(files.tables)
    for name, metrics in summary.methods(table).items():
        # In a folder and without checksums: DVC would show what else there is as metrics too.
        with atomic(Path(output.methods, "means", f"{name}.json")) as file:
            file.write_text(json.dumps(metrics, indent=2) + "\n")
    theme.save(loss_curves(summary.training_losses(files.records)), Path(output.losses).with_suffix(""))
    theme.save(gap_plot(table, PAPERS_METHOD), Path(output.forgetting).with_suffix(""))
