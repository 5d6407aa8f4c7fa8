# %% [markdown]
# # The paper in 40 lines
# Train MUNKEY on a few digits, forget some by deleting their keys, and compare with a model that never saw them, and
# with a ViT that never did. The functions are those that the rules of the workflow call. Run it in the project's
# folder; the whole takes seconds.

# %%
import os
import tempfile
from pathlib import Path

import numpy as np

from munkey.core.files import read_json, read_npz
from munkey.data import forget_sets
from munkey.evaluation.metrics import compute_metrics
from munkey.experiment.params.load import load, read_params
from munkey.experiment.params.overlays import merge
from munkey.experiment.plan.plan import Plan
from munkey.experiment.run.job import Surroundings
from munkey.jobs.data import data
from munkey.jobs.evaluate import evaluate
from munkey.jobs.forget import forget
from munkey.jobs.keys import keys, neighbors
from munkey.jobs.train import train
from munkey.jobs.unlearn import unlearn
from munkey.models.training_inputs import SampleFiles

# %% [markdown]
# Parameters as in params.yaml, but with fewer pictures and epochs.

# %%
small = {
    "source": {"limit_per_class": 60},
    "train": {"epochs": 10},
    "model": {"depth": 2},
    "keys": {"image_size": 64},
}
config = merge(read_params([]), small)
plan = Plan(load(config))
os.chdir(tempfile.mkdtemp())
images, keyfile, forgotten = Path("data/images.npy"), Path("keys.npz"), Path("forget.csv")
cpu = Surroundings("cpu")

# %% [markdown]
# Data, one key for each sample from a frozen encoder, and 10% of the training samples, to be forgotten.

# %%
data(images, "digits", plan.params.source, config)
keys(images, keyfile, plan.params.keys, "cpu")
forget(images, forgotten, "digits", seed=0, rate="0.1", sampling="stratified")
for subset, without in (("full", None), ("rate0.1", forgotten)):
    neighbors(images, keyfile, Path(f"neighbors-{subset}.npz"), plan.params.keys.depth, without)

# %% [markdown]
# An original, which sees all; two oracles, which never see what is to be forgotten: of MUNKEY and of a plain ViT.

# %%
for name, subset, without in (("original-m", "full", None), ("retrain-m", "rate0.1", forgotten)):
    files = SampleFiles(images, without, keyfile=keyfile, neighbors=Path(f"neighbors-{subset}.npz"))
    settings = plan.train_settings("digits", "m")
    train(files, Path(name), Path(f"{name}.json"), "munkey", "digits", 0, subset, settings, cpu)
files, settings = SampleFiles(images, forgotten), plan.train_settings("digits", "t")
train(
    files, Path("retrain-t"), Path("retrain-t.json"), "vit", "digits", 0, "rate0.1", settings, cpu
)

# %% [markdown]
# To forget is to delete rows of the memory. Nothing is trained.

# %%
settings = plan.unlearn_settings("digits", "munkey")
record = Path("munkey.json")
names = {
    "method": "munkey",
    "dataset": "digits",
    "seed": 0,
    "rate": "0.1",
    "system": Path("munkey"),
}
unlearn(files, Path("original-m"), record, settings=settings, around=cpu, **names)

# %% [markdown]
# Accuracies on test, retain and forget set, and whether an attack tells forgotten from unseen samples (50: it cannot).

# %%
results = {}
for name in ("original-m", "munkey", "retrain-m", "retrain-t"):
    memory = "full" if name == "original-m" else "rate0.1"
    near = None if name == "retrain-t" else Path(f"neighbors-{memory}.npz")
    asked = SampleFiles(images, neighbors=near)
    evaluate(asked, Path(name), Path("logits.npz"), plan.evaluate_settings("digits", name), cpu)
    results[name] = compute_metrics(
        read_npz(Path("logits.npz")), forget_sets.read(forgotten), np.random.default_rng(0)
    )
    print(
        f"{name:11}",
        *(f"{metric} {results[name][metric]:5.1f}" for metric in ("TA", "RA", "FA", "MIA")),
    )
seconds = read_json(record)["unlearn_s"]
print(f"deleted in {1000 * seconds:.1f} ms")
