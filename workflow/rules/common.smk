# Parameters, checked before anything else; wildcards; and what the rules share.
from pathlib import Path

from snakemake.exceptions import WorkflowError

from munkey import fingerprint
from munkey.data import DATASETS
from munkey.encoders import cache_name, find
from munkey.params import ParamsError, load, rate_name
from munkey.runtime import gpu_visible
from munkey.unlearn import METHODS

try:
    PARAMS = load(config)
except ParamsError as error:
    raise WorkflowError(str(error)) from None

RATES = {name: [rate_name(rate) for rate in PARAMS.of(name).forget.rates] for name in PARAMS.datasets}
# What is trained: ViT and MUNKEY always, others for methods that start from them. Each as original and as oracle.
LETTERS = {"vit": "t", "munkey": "m", "sisa": "s"}
TRAINED = [base for base in LETTERS if base in ["vit", "munkey"] + [METHODS[name].base for name in PARAMS.methods]]
ORIGINALS = [f"original-{LETTERS[base]}" for base in TRAINED]
ORACLES = [f"retrain-{LETTERS[base]}" for base in TRAINED]
# The methods whose settings are searched; the others run with their own.
SEARCHED = [name for name in PARAMS.methods if PARAMS.search and len(PARAMS.candidates(PARAMS.datasets[0], name)) > 1]


def one_of(names):
    """A pattern of exactly these names; one that nothing matches where there are none."""
    return "|".join(names) or r"(?!)"


wildcard_constraints:
    dataset=r"[\w-]+",
    encoder=r"[\w.-]+",
    seed=r"\d+",
    rate=r"[\d.e-]+",
    subset=r"full|rate[\d.e-]+",
    scope=r"full|seed\d+/rate[\d.e-]+",
    run="original|retrain",
    candidate=r"\d+",
    method=one_of(METHODS),


def section(dataset, *names):
    """Sections of the parameters as they hold for a data set: what a rule hands to its script, and re-runs for."""
    params = PARAMS.of(dataset).model_dump()
    return {name: params[name] for name in names}


def code(script, *modules):
    """Digest of a script's code and of all it uses; `modules` are those that it finds through a registry."""
    folder = Path(workflow.basedir)
    found = [Path(fingerprint.PACKAGE.parent, *module.split(".")).with_suffix(".py") for module in modules]
    return fingerprint.digest(folder / "scripts" / script, *found)


# GPUs of a job that can use one. `cuda` also plans on a host without a GPU, for nodes that have one.
GPUS = {"cuda": 1, "cpu": 0, "auto": int(gpu_visible())}[PARAMS.device]


def disk_state(dataset):
    """Number, size and newest change of a data set's own files, so that changing them prepares it anew."""
    path = PARAMS.of(dataset).source.path
    if not DATASETS[dataset].needs_path or path is None:
        return None
    files = [Path(path)] if Path(path).is_file() else [file for file in Path(path).rglob("*") if file.is_file()]
    stats = [file.stat() for file in files]
    return [len(stats), sum(stat.st_size for stat in stats), max((stat.st_mtime_ns for stat in stats), default=0)]


def prepared(wildcards):
    """A prepared data set, as named input."""
    folder = f"results/data/{wildcards.dataset}"
    return {"images": f"{folder}/images.npy", "samples": f"{folder}/samples.csv", "classes": f"{folder}/classes.json"}


def encoder_of(dataset):
    """The folder of a data set's keys and neighbours: one for each encoder, revision and input size."""
    keys = PARAMS.of(dataset).keys
    return cache_name(keys.encoder, keys.revision, keys.image_size)


def keys_of(wildcards):
    return f"results/keys/{wildcards.dataset}/{encoder_of(wildcards.dataset)}/keys.npz"


def forget_set(wildcards):
    """The forget set that a model must not have seen; none for what is trained on everything."""
    if wildcards.subset == "full":
        return {}
    return {"forget": f"results/forget/{wildcards.dataset}/seed{wildcards.seed}/{wildcards.subset}.csv"}


def forget_of_scope(wildcards):
    """The forget set that a memory is searched without; none for the memory of all training samples."""
    if wildcards.scope == "full":
        return {}
    return {"forget": f"results/forget/{wildcards.dataset}/{wildcards.scope}.csv"}


def neighbors_of(wildcards):
    """Neighbours found in the memory that a model of this subset holds."""
    scope = "full" if wildcards.subset == "full" else f"seed{wildcards.seed}/{wildcards.subset}"
    return f"results/neighbors/{wildcards.dataset}/{encoder_of(wildcards.dataset)}/{scope}.npz"


def original_of(wildcards):
    """The trained original, or the keys for a method that needs no training."""
    base = METHODS[wildcards.method].base
    if base == "keys":
        return {"keyfile": keys_of(wildcards)}
    folder = f"results/models/{wildcards.dataset}/seed{wildcards.seed}/full/original-{LETTERS[base]}"
    return {"original": f"{folder}/system.safetensors"}


def sisa_settings(wildcards):
    """What SISA is trained by; its deletion trains in the same way."""
    own = section(wildcards.dataset, "unlearn")["unlearn"]["sisa"]
    return section(wildcards.dataset, "data", "model", "train") | {"sisa": own}


def unlearn_settings(wildcards):
    """The method's own section; the shared ones only where it fine-tunes on data; the architecture it expects."""
    method = METHODS[wildcards.method]
    own = section(wildcards.dataset, "unlearn")["unlearn"][method.name]
    names = {"keys": [], "vit": ["data", "model"], "munkey": ["data", "model", "munkey"]}.get(method.base)
    if method.base == "sisa":
        return sisa_settings(wildcards) | {"method": own}
    return section(wildcards.dataset, *names, *(["train", "finetune"] if method.needs else [])) | {"method": own}


def candidate_settings(wildcards):
    """The same with the values of one candidate of the search."""
    chosen = PARAMS.candidates(wildcards.dataset, wildcards.method)[int(wildcards.candidate)]
    return unlearn_settings(wildcards) | {"method": chosen}


def search_settings(wildcards):
    return section(wildcards.dataset, "data") | {"search_drop": PARAMS.search_drop}


def candidates_of(wildcards):
    """Every candidate of a method's search, in the order of the grid."""
    where = "{0.dataset}/seed{0.seed}/rate{0.rate}/{0.method}".format(wildcards)
    folders = [
        f"results/search/{where}/{n}" for n in range(len(PARAMS.candidates(wildcards.dataset, wildcards.method)))
    ]
    return {kind: [f"{folder}/{name}" for folder in folders] for kind, name in CANDIDATE_FILES.items()}


CANDIDATE_FILES = {"systems": "system.safetensors", "records": "record.json"}


def has_memory(name):
    return name in ("original-m", "retrain-m") or name in METHODS and METHODS[name].base in ("munkey", "keys")


def memory_of(wildcards):
    return {"neighbors": neighbors_of(wildcards)} if has_memory(wildcards.system) else {}


def evaluate_settings(wildcards):
    """What a system's answers depend on: retrieval only where there is a memory, of it only K for KNN."""
    inference = section(wildcards.dataset, "inference")["inference"]
    if wildcards.system in METHODS and METHODS[wildcards.system].base == "keys":
        inference = {"k": inference["k"]}
    return section(wildcards.dataset, "data") | {"inference": inference if has_memory(wildcards.system) else {}}


def training_record(dataset, seed, system):
    """The record of the training that a method starts from; None for what was itself trained from fresh weights."""
    letter = LETTERS.get(METHODS[system].base) if system in METHODS else None
    return letter and f"results/models/{dataset}/seed{seed}/full/original-{letter}/record.json"


def evaluated(dataset):
    """Every (rate, seed, system) of the main table with its logits, its records and its forget set."""
    found = []
    for rate in RATES[dataset]:
        for seed in PARAMS.seeds:
            for system in [*ORIGINALS, *ORACLES, *PARAMS.methods]:
                subset = "full" if system in ORIGINALS else f"rate{rate}"
                tail = f"{dataset}/seed{seed}/{subset}/{system}"
                found.append(
                    {
                        "dataset": dataset,
                        "rate": rate,
                        "seed": seed,
                        "method": system,
                        "logits": f"results/logits/{tail}.npz",
                        "record": f"results/models/{tail}/record.json",
                        "training": training_record(dataset, seed, system) or f"results/models/{tail}/record.json",
                        "forget": f"results/forget/{dataset}/seed{seed}/rate{rate}.csv",
                    }
                )
    return found


def files_of(runs):
    return sorted({run[kind] for run in runs for kind in ("logits", "record", "training", "forget")})


def searches_of(runs):
    """What the searches found, for the runs whose settings were searched."""
    return {
        "results/search/{dataset}/seed{seed}/rate{rate}/{method}/search.json".format(**run): run
        for run in runs
        if run["method"] in SEARCHED
    }


def table_rows():
    """Rows of the tables in order: originals as context, oracles, methods as listed in the parameters."""
    trained = [
        {"name": name, "title": title, "latex_title": title, "oracle": oracle, "context": oracle is not None}
        for name in ORIGINALS + ORACLES
        for title in [f"{name[:-2].capitalize()} ({name[-1].upper()})"]
        for oracle in [f"retrain-{name[-1]}" if name in ORIGINALS else None]
    ]
    return trained + [
        {"name": name} | {key: getattr(METHODS[name], key) for key in ("title", "latex_title", "oracle")}
        for name in PARAMS.methods
    ]


RUNS = [run for dataset in PARAMS.datasets for run in evaluated(dataset)]
