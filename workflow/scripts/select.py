"""Choose p_image and p_token for a data set, and say why each pair was chosen or not."""

from munkey import warm

warm.start()

import pandas as pd

from munkey import runtime, selection, tables
from munkey.files import atomic, write_csv, write_json

with runtime.job(snakemake.log[0], snakemake.threads):
    settings = runtime.sections(snakemake.params.settings)
    tidy = pd.read_csv(snakemake.input.metrics)
    cells = tidy.pivot_table(index=["case", "method", "seed"], columns="metric", values="value")
    pairs, shown = [], []
    for case, pair in snakemake.params.pairs.items():
        before, after = cells.loc[(case, "original-m")], cells.loc[(case, "munkey")]
        gap = (after["VA"] - after["FA"]).abs().mean()
        pairs.append(selection.Pair(**pair, P_s=before["P_s"].mean(), gap=gap, reference=not any(pair.values())))
        shown.append({name: after[name].mean() for name in ("TA", "RA", "FA", "VA", "MIA")} | {"n": len(after)})
    chosen, rows = selection.select(pairs, settings.selection.threshold, settings.selection.comparable)
    print(f"chosen: {chosen}")
    name = {"dataset": snakemake.wildcards.dataset}
    table = [name | row | means for row, means in zip(rows, shown, strict=True)]
    write_csv(snakemake.output.table, table)
    write_json(snakemake.output.chosen, {"chosen": {"p_image": chosen.p_image, "p_token": chosen.p_token}})
    title = f"{snakemake.wildcards.dataset}: means over n = {table[0]['n']} seeds"
    for path, style in ((snakemake.output.markdown, "markdown"), (snakemake.output.latex, "latex")):
        with atomic(path) as temporary:
            temporary.write_text(tables.render([(title, selection.table(table))], style))
