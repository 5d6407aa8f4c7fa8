"""The tables of the ablations, as Markdown and LaTeX, and their numbers as one CSV."""

from munkey import warm

warm.start()

from pathlib import Path

import pandas as pd

from munkey import ablations, runtime, tables
from munkey.files import atomic

with runtime.job(snakemake.log[0], snakemake.threads):
    tidy = pd.concat([pd.read_csv(path) for path in snakemake.input.metrics], ignore_index=True)
    summary = ablations.summarised(tidy)
    written = {snakemake.output.summary: summary.to_csv(index=False)}
    for path in map(Path, snakemake.output.tables):
        style = {".md": "markdown", ".tex": "latex"}[path.suffix]
        written[path] = tables.render(list(ablations.TABLES[path.stem](summary, style)), style)
    for path, text in written.items():
        with atomic(path) as temporary:
            temporary.write_text(text)
