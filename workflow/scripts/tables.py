"""The tidy CSV of every metric, and the tables made from it."""

from munkey import warm

warm.start()

from pathlib import Path

import pandas as pd

from munkey import runtime, tables
from munkey.files import atomic

with runtime.job(snakemake.log[0], snakemake.threads):
    rows = [tables.Row(**row) for row in snakemake.params.rows]
    tidy = pd.concat([pd.read_csv(path) for path in snakemake.input.metrics], ignore_index=True)
    tidy = tables.with_seed_gaps(tidy, rows)
    summary = tables.summarise(tidy, rows)
    largest = summary[summary["rate"] == summary.groupby("dataset")["rate"].transform("max")]
    written = {
        snakemake.output.tidy: tidy.to_csv(index=False),
        snakemake.output.csv: summary.to_csv(index=False),
        snakemake.output.markdown: tables.main_table(summary, rows, "markdown"),
        snakemake.output.html: tables.main_table(summary, rows, "html"),
        snakemake.output.latex: tables.main_table(summary, rows, "latex"),
        snakemake.output.runtime: tables.render([("", tables.runtime_table(summary))], "markdown"),
        snakemake.output.runtime_latex: tables.render([("", tables.runtime_table(summary, "latex"))], "latex"),
        snakemake.output.datasets: tables.main_table(largest, rows, "markdown"),
        snakemake.output.datasets_latex: tables.main_table(largest, rows, "latex"),
    }
    for path, text in written.items():
        with atomic(path) as temporary:
            Path(temporary).write_text(text)
