# %% [markdown]
# # Reading results/
# What a run leaves behind, with pandas: metrics, how a job ran, and every system's answers. Run it in the project's
# folder after `make run`; RESULTS names another configuration's folder.

# %%
import os
from pathlib import Path

from munkey.core.files import read_json, read_npz, read_table
from munkey.evaluation.metrics import compute_accuracy

RESULTS = Path(os.environ.get("RESULTS", "results/default"))

# %% [markdown]
# All metrics of the main run, a line per value. Here their mean, spread and number over seeds.

# %%
metrics = read_table(RESULTS / "metrics.csv")
over_seeds = metrics.groupby(["dataset", "rate", "method", "metric"])["value"].agg(
    ["mean", "std", "count"]
)
print(over_seeds.round(2).to_string())

# %% [markdown]
# Methods in the order of their gap from the oracle, at each forget rate.

# %%
gaps = (
    metrics[metrics["metric"] == "gap"].groupby(["rate", "method"])["value"].mean().unstack("rate")
)
print(gaps.sort_values(by=gaps.columns[-1]).round(2).to_string())

# %% [markdown]
# The main table, as the run wrote it, and the record of one job: when it ran, on what, with which settings.

# %%
print((RESULTS / "tables" / "main.md").read_text())
path = min(RESULTS.glob("models/*/seed*/rate*/munkey/record.json"))
record = read_json(path)
print(path, record["started"], record["provenance"]["device"], record["settings"], sep="\n")

# %% [markdown]
# The logits of that system for every sample, from which all its metrics were measured: here, the accuracy by split.

# %%
dataset, seed, rate, method = path.parts[-5:-1]
logits = read_npz(RESULTS / "logits" / dataset / seed / rate / f"{method}.npz")
by_split = {
    str(split): compute_accuracy(
        logits["logits"][logits["splits"] == split], logits["labels"][logits["splits"] == split]
    )
    for split in sorted(set(logits["splits"]))
}
print(by_split)
