"""Audit what is left of what was deleted: a row for each system and path, and the controls."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

import pandas as pd

from munkey.audits.read_evidence import family_audits
from munkey.core.console import progress
from munkey.core.files import write_json, write_text
from munkey.core.randomness import Stage
from munkey.experiment.run.job import job

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    stage = Stage(snakemake.wildcards.dataset, "audit", "intervals")
    audits = list(
        progress(family_audits(snakemake.params.systems, snakemake.input.halves, stage), "family", "families")
    )
    lines = [line for audit in audits for line in audit.lines()]
    write_text(snakemake.output.table, pd.DataFrame(lines).to_csv(index=False))
    write_json(snakemake.output.controls, {audit.family: [each.words for each in audit.controls] for audit in audits})
