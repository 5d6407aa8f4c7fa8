"""Attack every system of the main run by its own answers, and show the attacks beside the paper's MIA."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

import pandas as pd

from munkey.audits.main_run import attack_lines
from munkey.core.console import progress
from munkey.core.files import write_text
from munkey.evaluation.records import Evaluation
from munkey.experiment.run.job import job
from munkey.report.tables import audits
from munkey.report.tables.markup import render
from munkey.report.tables.summary import Row, read_metrics

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    params, output = snakemake.params, snakemake.output
    runs = [Evaluation(**run) for run in params.runs]
    found = pd.DataFrame([line for run in progress(runs, "system", "systems") for line in attack_lines(run)])
    write_text(output.table, found.to_csv(index=False))
    shown = audits.attacks_tables(found, read_metrics([snakemake.input.metrics]), [Row(**row) for row in params.rows])
    write_text(output.markdown, render(shown, "markdown"))
    write_text(output.latex, render(shown, "latex"))
