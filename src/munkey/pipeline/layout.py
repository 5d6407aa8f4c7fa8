"""Every path under `results/`, once. Names in braces are wildcards.

case: a data set, or DATASET/KNOB/VALUE for the same experiment with one thing changed. subset: `full`, or `rateR` for
what is trained or answers without a forget set. scope: `full` or `seedS/rateR`, of the memory that is searched.
"""

import re

IMAGES = "results/data/{dataset}/images.npy"
SAMPLES = "results/data/{dataset}/samples.csv"
CLASSES = "results/data/{dataset}/classes.json"
KEYS = "results/keys/{dataset}/{encoder}/keys.npz"
NEIGHBORS = "results/neighbors/{dataset}/{encoder}/{scope}.npz"
FORGET = "results/forget/{dataset}/seed{seed}/rate{rate}.csv"
SYSTEM = "results/models/{case}/seed{seed}/{subset}/{system}/system.safetensors"
RECORD = "results/models/{case}/seed{seed}/{subset}/{system}/record.json"
CANDIDATE_SYSTEM = "results/search/{case}/seed{seed}/rate{rate}/{method}/{candidate}/system.safetensors"
CANDIDATE_RECORD = "results/search/{case}/seed{seed}/rate{rate}/{method}/{candidate}/record.json"
SEARCH = "results/search/{case}/seed{seed}/rate{rate}/{method}/search.json"
LOGITS = "results/logits/{case}/seed{seed}/{subset}/{system}.npz"
METRICS = "results/metrics/{dataset}.csv"
ABLATION_METRICS = "results/ablations/{dataset}.csv"
SELECTION_METRICS = "results/selection/{dataset}/metrics.csv"
SELECTION_CHOSEN = "results/selection/{dataset}/chosen.json"
SELECTION_TABLE = "results/selection/{dataset}/table.{ending}"
ALL_METRICS = "results/metrics.csv"
TABLE = "results/tables/{table}.{ending}"
SUMMARY = "results/summary/{part}"
TRACE = "results/trace/{case}/seed{seed}.npz"
FIGURE = "results/figures/{figure}.{ending}"
TRACKING = "results/tracking.json"
REPORT = "results/report/index.html"


def fill(pattern: str, **values: object) -> str:
    """A path with these wildcards filled in; the others stay wildcards."""
    return re.sub(r"\{(\w+)\}", lambda wildcard: str(values.get(wildcard[1], wildcard[0])), pattern)


def log(name: str) -> str:
    """Where a job's output goes."""
    return f"logs/{name}.log"


def benchmark(name: str) -> str:
    """Where Snakemake notes what a job cost."""
    return f"results/benchmarks/{name}.tsv"
