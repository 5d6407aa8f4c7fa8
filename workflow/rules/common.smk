# Parameters, checked before anything else; wildcards; and what the rules share.
import os
from pathlib import Path

from snakemake.exceptions import WorkflowError

from munkey import fingerprint
from munkey.params import ParamsError, load, rate_name
from munkey.unlearn import METHODS

try:
    PARAMS = load(config)
except ParamsError as error:
    raise WorkflowError(str(error)) from None

RATES = {name: [rate_name(rate) for rate in PARAMS.of(name).forget.rates] for name in PARAMS.datasets}
ORACLES = ["retrain-t", "retrain-m"]
ORIGINALS = ["original-t", "original-m"]


wildcard_constraints:
    dataset=r"[\w-]+",
    seed=r"\d+",
    rate=r"[\d.e-]+",
    subset=r"full|rate[\d.e-]+",
    scope=r"full|seed\d+/rate[\d.e-]+",
    run="original|retrain",
    method="|".join(METHODS),


def section(dataset, *names):
    """Sections of the parameters as they hold for a data set: what a rule hands to its script, and re-runs for."""
    params = PARAMS.of(dataset).model_dump()
    return {name: params[name] for name in names}


def code(script, *modules):
    """Digest of a script's code and of all it uses; `modules` are those that it finds through a registry."""
    folder = Path(workflow.basedir)
    found = [Path(fingerprint.PACKAGE.parent, *module.split(".")).with_suffix(".py") for module in modules]
    return fingerprint.digest(folder / "scripts" / script, *found)


def gpus():
    """GPUs of a job that can use one. `cuda` also plans on a host without a GPU for nodes that have one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all") not in ("", "-1")
    here = visible and (Path("/dev/nvidia0").exists() or Path("/proc/driver/nvidia/gpus").exists())
    return {"cuda": 1, "cpu": 0, "auto": int(here)}[PARAMS.device]


GPUS = gpus()


def prepared(wildcards):
    """A prepared data set, as named input."""
    folder = f"results/data/{wildcards.dataset}"
    return {"images": f"{folder}/images.npy", "samples": f"{folder}/samples.csv", "classes": f"{folder}/classes.json"}


def keys_of(wildcards):
    return f"results/keys/{wildcards.dataset}/{PARAMS.of(wildcards.dataset).keys.encoder}/keys.npz"


def forget_set(wildcards):
    """The forget set that a model must not have seen; none for what is trained on everything."""
    if wildcards.subset == "full":
        return {}
    return {"forget": f"results/forget/{wildcards.dataset}/seed{wildcards.seed}/{wildcards.subset}.csv"}


def neighbors_of(wildcards):
    """Neighbours found in the memory that a model of this subset holds."""
    scope = "full" if wildcards.subset == "full" else f"seed{wildcards.seed}/{wildcards.subset}"
    return f"results/neighbors/{wildcards.dataset}/{scope}.npz"
