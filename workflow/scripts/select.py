"""Choose p_image and p_token for a data set, and say why each pair was chosen or not."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

import pandas as pd

from munkey.core.files import read_table, write_csv, write_json, write_text
from munkey.evaluation import selection
from munkey.experiment.run.job import job
from munkey.report.tables.main import selection_table
from munkey.report.tables.markup import render, seeds
from munkey.settings import SelectionSettings

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    dataset, grid, output = snakemake.wildcards.dataset, snakemake.params.pairs, snakemake.output
    settings, systems = snakemake.params.settings["selection"], selection.Systems(**snakemake.params.systems)
    tidy = read_table(snakemake.input.metrics)
    pairs, required = selection.pairs_of(tidy, grid, systems), snakemake.params.required
    verdicts = selection.select(pairs, SelectionSettings(**settings), required)
    chosen = selection.chosen(verdicts)
    print(f"chosen: {chosen or 'none, no pair passes'}")
    lines = selection.table(dataset, verdicts, selection.means_after(tidy, grid, systems))
    write_csv(output.table, lines)
    write_json(output.chosen, {"chosen": chosen and {"p_image": chosen.p_image, "p_token": chosen.p_token}})
    shown = [selection_table(pd.DataFrame(lines), f"{dataset}: means over {seeds(int(str(lines[0]['n'])))}")]
    write_text(output.markdown, render(shown, "markdown"))
    write_text(output.latex, render(shown, "latex"))
