"""Mirror every (data set, rate, seed, method) and the tables into MLflow."""

from munkey import warm

warm.start()

from pathlib import Path

import pandas as pd

from munkey import runtime
from munkey.files import read_json, write_json
from munkey.tracking import Run, flat, mirror

CURVES = ("loss", "accuracy", "lr")

with runtime.job(snakemake.log[0], snakemake.threads):
    given, titles = snakemake.params, {row["name"]: row["title"] for row in snakemake.params.rows}
    tidy = pd.read_csv("results/metrics.csv").astype({"rate": str, "seed": str})
    measured = tidy.groupby(["dataset", "rate", "seed", "method"])
    runs = []
    for run in given.runs:
        tags = {name: str(run[name]) for name in ("dataset", "rate", "seed", "method")}
        own = measured.get_group(tuple(tags.values())).set_index("metric")["value"]
        record, training = read_json(run["record"]), read_json(run["training"])
        curves = {f"train/{c}": [epoch[c] for epoch in training["history"]] for c in CURVES}
        if run["record"] != run["training"]:
            curves |= {f"unlearn/{c}": [epoch[c] for epoch in record["history"]] for c in CURVES}
        runs.append(
            Run(
                experiment=run["dataset"],
                name=f"{titles[run['method']]} @{tags['rate']} seed {tags['seed']}",
                params=tags | flat(record["settings"]) | flat({"facts": record.get("facts", {})}),
                metrics=own.to_dict(),
                tags=tags | {"kind": "run"} | flat(record["provenance"]),
                curves=curves,
                artifacts=(run["record"], run["forget"]),
                started=record["started"],
                ended=record["ended"],
            )
        )
    for path, run in given.searches.items():
        found, folder = read_json(path), Path(path).parent
        for n, candidate in enumerate(found["candidates"]):
            tags = {name: str(run[name]) for name in ("dataset", "rate", "seed", "method")}
            record = read_json(folder / str(n) / "record.json")
            runs.append(
                Run(
                    experiment=run["dataset"],
                    name=f"{titles[run['method']]} @{tags['rate']} seed {tags['seed']} candidate {n}",
                    params=tags | flat(candidate["settings"]),
                    metrics={name: value for name, value in candidate.items() if name != "settings"},
                    tags=tags | {"kind": "candidate", "chosen": str(n == found["chosen"]).lower()},
                    curves={f"unlearn/{c}": [epoch[c] for epoch in record["history"]] for c in CURVES},
                    artifacts=(str(folder / str(n) / "record.json"),),
                    started=record["started"],
                    ended=record["ended"],
                )
            )
    summary = pd.read_csv("results/tables/main.csv")
    tables = ("results/tables/main.csv", "results/tables/main.md", "results/tables/runtime.md", "results/metrics.csv")
    for dataset, part in summary.groupby("dataset"):
        found = part[part["gap_mean"].notna()]
        metrics = {f"gap/{row.method}/rate{row.rate:g}": row.gap_mean for row in found.itertuples()}
        tags = {"dataset": dataset, "kind": "table"}
        runs.append(Run(dataset, "Tables", {"n_seeds": int(part["n"].min())}, metrics, tags, artifacts=tables))
    counts = mirror(given.uri, runs)
    print(f"MLflow at {given.uri}: {counts}")
    shown = [{"key": run.name, "experiment": run.experiment, "digest": run.digest()} for run in runs]
    write_json(snakemake.output.mirrored, {"uri": given.uri, "runs": shown})
