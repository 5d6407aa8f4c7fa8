"""Draw one chart from tables or a trace; its kind says which."""

from munkey import warm

warm.start()

from pathlib import Path

import numpy as np
import pandas as pd

from munkey import diagram, figures, runtime, style
from munkey.files import read_json, read_npz


def forgetting(given):
    return figures.forgetting_against_utility(pd.read_csv(given.table).dropna(subset=["unlearn_s_mean", "gap_mean"]))


def neighbours(given):
    table = pd.read_csv(given.table)
    part = table[(table["knob"] == "inference.k") & (table["method"] == "munkey")]
    return figures.k_curve(part.assign(k=part["value"].astype(int)).sort_values("k"))


def radar(given):
    return figures.radar(pd.read_csv(given.table))


def sensitivity(given):
    traced = read_npz(given.trace)
    columns = {name: traced[name] for name in ("epoch", "P_s", "A_image", "A_token", "A_both")}
    seed = snakemake.params.seeds[0]
    frame = pd.DataFrame(columns).assign(dataset=snakemake.params.dataset, seed=seed)
    return figures.sensitivity(frame, snakemake.params.threshold)


def tokens(given):
    traced, classes = read_npz(given.trace), read_json(given.classes)
    epochs = sorted(int(name.removeprefix("tokens_")) for name in traced if name.startswith("tokens_"))
    panels = []
    for epoch, moment in zip(epochs, ("start", "middle", "end"), strict=True):
        flat = [figures.umap_2d(traced[f"{what}_{epoch}"], seed=0) for what in ("tokens", "features")]
        panels.append(
            figures.Projection(f"{moment} (epoch {epoch})", *flat, traced["labels"].astype(np.int64), classes)
        )
    return figures.projection(panels)


KINDS = {
    "overview": lambda given: diagram.overview(),
    "forgetting": forgetting,
    "neighbors": neighbours,
    "radar": radar,
    "sensitivity": sensitivity,
    "tokens": tokens,
}

with runtime.job(snakemake.log[0], snakemake.threads):
    style.save(KINDS[snakemake.params.kind](snakemake.input), Path(snakemake.output.svg).with_suffix(""))
