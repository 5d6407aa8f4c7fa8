"""What `dvc metrics` and `dvc plots` show: means by data set, rate and method; training curves; gap against time."""

from munkey import warm

warm.start()

import pandas as pd

from munkey import runtime
from munkey.files import read_json, write_csv, write_json

SHOWN = {"TA": "TA_mean", "RA": "RA_mean", "FA": "FA_mean", "MIA": "MIA_mean", "gap": "gap_mean", "P_s": "P_s_mean"}

with runtime.job(snakemake.log[0], snakemake.threads):
    summary = pd.read_csv(snakemake.input.tables)
    nested, points, curves = {}, [], []
    for values in summary.to_dict("records"):
        shown = {name: round(values[column], 4) for name, column in SHOWN.items() if pd.notna(values.get(column))}
        nested.setdefault(values["dataset"], {}).setdefault(f"rate{values['rate']:g}", {})[values["method"]] = shown
        if pd.notna(values.get("unlearn_s_mean")) and pd.notna(values.get("gap_mean")):
            points.append({name: values[name] for name in ("dataset", "rate", "title", "unlearn_s_mean", "gap_mean")})
    for path in snakemake.input.records:
        dataset, seed, subset, system = path.split("/")[2:6]
        run = f"{dataset} {subset} {system} {seed}"
        curves += [{"run": run} | epoch for epoch in read_json(path)["history"]]
    write_json(snakemake.output.metrics, nested)
    write_csv(snakemake.output.curves, curves)
    write_csv(snakemake.output.forgetting, points)
