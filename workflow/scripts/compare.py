"""The paper's printed numbers beside ours, and whether they may be compared."""

from munkey import warm

warm.start()

import pandas as pd

from munkey import paper, runtime, tables
from munkey.files import atomic

with runtime.job(snakemake.log[0], snakemake.threads):
    given, params = snakemake.input, snakemake.params
    both = paper.compared(pd.read_csv(given.main), pd.read_csv(given.ablations))
    said = [paper.statement(name, settings, params.seeds) for name, settings in params.settings.items()]
    table = paper.table(both)
    blocks = [("", table)] if len(table) else []
    remarks = "".join(f"- {line}\n" for line in said) + "\n"
    written = {
        snakemake.output.csv: both.to_csv(index=False),
        snakemake.output.markdown: remarks + tables.render(blocks, "markdown"),
        snakemake.output.latex: "".join(f"% {line}\n" for line in said) + tables.render(blocks, "latex"),
    }
    for path, text in written.items():
        with atomic(path) as temporary:
            temporary.write_text(text)
