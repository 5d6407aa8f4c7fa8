# Parameters, checked before anything else; wildcards; and what the rules share.
from functools import cache
from itertools import product
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
    case=r"[\w-]+(/[\w.]+/[\w.-]+)?",
    encoder=r"[\w.-]+",
    seed=r"\d+",
    rate=r"[\d.e-]+",
    subset=r"full|rate[\d.e-]+",
    scope=r"full|seed\d+/rate[\d.e-]+",
    run="original|retrain",
    candidate=r"\d+",
    method=one_of(METHODS),


# A case is a data set, or DATASET/KNOB/VALUE: the same experiment with one thing changed, for an ablation or a selection.
CASES = {name: [name, *(f"{name}/{change}" for change in PARAMS.changes)] for name in PARAMS.datasets}
# What MUNKEY's training depends on, and its answers too. Cases that agree in it share one model, or one set of logits.
TRAINING = ("source", "data", "keys", "model", "train", "munkey")


def dataset_of(case):
    return case.partition("/")[0]


def of(wildcards):
    """The case that a job belongs to; for a job of a whole data set, that data set."""
    return wildcards.get("case") or wildcards.dataset


@cache
def section(case, *names):
    """Sections of the parameters as they hold for a case: what a rule hands to its script, and re-runs for."""
    params = PARAMS.of(case).model_dump()
    return {name: params[name] for name in names}


def first_alike(case, *sections):
    """The first case of the same data set that agrees in these sections: the one that does the work for all of them."""
    wanted = section(case, *sections)
    return next(other for other in CASES[dataset_of(case)] if section(other, *sections) == wanted)


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
    folder = f"results/data/{dataset_of(of(wildcards))}"
    return {"images": f"{folder}/images.npy", "samples": f"{folder}/samples.csv", "classes": f"{folder}/classes.json"}


def encoder_of(case):
    """The folder of a case's keys and neighbours: one for each encoder, revision and input size."""
    keys = PARAMS.of(case).keys
    return cache_name(keys.encoder, keys.revision, keys.image_size)


def encoding(wildcards):
    """The parameters of the encoder that a folder of keys is named for."""
    cases = CASES[wildcards.dataset]
    return PARAMS.of(next(case for case in cases if encoder_of(case) == wildcards.encoder)).keys


def keys_of(wildcards):
    case = of(wildcards)
    return f"results/keys/{dataset_of(case)}/{encoder_of(case)}/keys.npz"


def forget_set(wildcards):
    """The forget set that a model must not have seen; none for what is trained on everything."""
    if wildcards.subset == "full":
        return {}
    return {"forget": f"results/forget/{dataset_of(of(wildcards))}/seed{wildcards.seed}/{wildcards.subset}.csv"}


def forget_of_rate(wildcards):
    return f"results/forget/{dataset_of(of(wildcards))}/seed{wildcards.seed}/rate{wildcards.rate}.csv"


def forget_of_scope(wildcards):
    """The forget set that a memory is searched without; none for the memory of all training samples."""
    if wildcards.scope == "full":
        return {}
    return {"forget": f"results/forget/{wildcards.dataset}/{wildcards.scope}.csv"}


def neighbors_of(wildcards):
    """Neighbours found in the memory that a model of this subset holds."""
    case = of(wildcards)
    scope = "full" if wildcards.subset == "full" else f"seed{wildcards.seed}/{wildcards.subset}"
    return f"results/neighbors/{dataset_of(case)}/{encoder_of(case)}/{scope}.npz"


def selected_for(wildcards):
    """What the selection found, for a case that wants its p_image and p_token from there."""
    if PARAMS.of(wildcards.case).munkey.p_drop == "fixed":
        return {}
    return {"selected": f"results/selection/{dataset_of(wildcards.case)}/chosen.json"}


def original_of(wildcards):
    """The trained original, or the keys for a method that needs no training."""
    base = METHODS[wildcards.method].base
    if base == "keys":
        return {"keyfile": keys_of(wildcards)}
    folder = f"results/models/{wildcards.case}/seed{wildcards.seed}/full/original-{LETTERS[base]}"
    return {"original": f"{folder}/system.safetensors"}


def sisa_settings(wildcards):
    """What SISA is trained by; its deletion trains in the same way."""
    own = section(of(wildcards), "unlearn")["unlearn"]["sisa"]
    return section(of(wildcards), "data", "model", "train") | {"sisa": own}


def unlearn_settings(wildcards):
    """The method's own section; the shared ones only where it fine-tunes on data; the architecture it expects."""
    method = METHODS[wildcards.method]
    own = section(wildcards.case, "unlearn")["unlearn"][method.name]
    names = {"keys": [], "vit": ["data", "model"], "munkey": ["data", "model", "munkey"]}.get(method.base)
    if method.base == "sisa":
        return sisa_settings(wildcards) | {"method": own}
    return section(wildcards.case, *names, *(["train", "finetune"] if method.needs else [])) | {"method": own}


def candidate_settings(wildcards):
    """The same with the values of one candidate of the search."""
    chosen = PARAMS.candidates(wildcards.case, wildcards.method)[int(wildcards.candidate)]
    return unlearn_settings(wildcards) | {"method": chosen}


def search_settings(wildcards):
    return section(wildcards.case, "data") | {"search_drop": PARAMS.search_drop}


def candidates_of(wildcards):
    """Every candidate of a method's search, in the order of the grid."""
    where = "results/search/{0.case}/seed{0.seed}/rate{0.rate}/{0.method}".format(wildcards)
    folders = [f"{where}/{n}" for n in range(len(PARAMS.candidates(wildcards.case, wildcards.method)))]
    files = {"systems": "system.safetensors", "records": "record.json"}
    return {kind: [f"{folder}/{name}" for folder in folders] for kind, name in files.items()}


def system_of(wildcards):
    """The system to evaluate; cases that differ in inference alone share it."""
    owner = first_alike(wildcards.case, *TRAINING)
    return "results/models/{0}/seed{1.seed}/{1.subset}/{1.system}/system.safetensors".format(owner, wildcards)


def has_memory(name):
    return name in ("original-m", "retrain-m") or name in METHODS and METHODS[name].base in ("munkey", "keys")


def memory_of(wildcards):
    return {"neighbors": neighbors_of(wildcards)} if has_memory(wildcards.system) else {}


def evaluate_settings(wildcards):
    """What a system's answers depend on: retrieval only where there is a memory, of it only K for KNN."""
    inference = section(wildcards.case, "inference")["inference"]
    if wildcards.system in METHODS and METHODS[wildcards.system].base == "keys":
        inference = {"k": inference["k"]}
    return section(wildcards.case, "data") | {"inference": inference if has_memory(wildcards.system) else {}}


def evaluated(case, systems, rates):
    """Every (rate, seed, system) of a case with its logits, its records and its forget set."""
    dataset, found = dataset_of(case), []
    models, logits = first_alike(case, *TRAINING), first_alike(case, *TRAINING, "inference")
    for rate, seed, system in product(rates, PARAMS.seeds, systems):
        tail = f"seed{seed}/{{}}/{system}".format("full" if system in ORIGINALS else f"rate{rate}")
        letter = LETTERS.get(METHODS[system].base) if system in METHODS else None
        record = f"results/models/{models}/{tail}/record.json"
        trained = f"results/models/{models}/seed{seed}/full/original-{letter}/record.json"
        found.append(
            {
                "dataset": dataset,
                "case": case.partition("/")[2],
                "rate": rate,
                "seed": seed,
                "method": system,
                "logits": f"results/logits/{logits}/{tail}.npz",
                "record": record,
                "training": trained if letter else record,  # of the training that a method starts from
                "forget": f"results/forget/{dataset}/seed{seed}/rate{rate}.csv",
            }
        )
    return found


def main_runs(dataset):
    """All that the main table of a data set shows."""
    return evaluated(dataset, [*ORIGINALS, *ORACLES, *PARAMS.methods], RATES[dataset])


def ablation_runs(dataset):
    """MUNKEY and the oracle of its kind for every case of an ablation, at the largest rate."""
    knobs = tuple(f"{knob}/" for knob in PARAMS.ablations)
    cases = [f"{dataset}/{change}" for change in PARAMS.changes if change.startswith(knobs)]
    return [run for case in cases for run in evaluated(case, ["original-m", "retrain-m", "munkey"], largest(dataset))]


def selection_runs(dataset):
    """MUNKEY before and after deletion for every pair (p_image, p_token), at the largest rate; no oracle has a say."""
    cases = [f"{dataset}/{change}" for change in PARAMS.changes if change.startswith("p_drop/")]
    return [run for case in cases for run in evaluated(case, ["original-m", "munkey"], largest(dataset))]


ABLATION_TABLES = ["ablations", "aggregation", "strategies", "encoders"]
# The grid of the selection by case: which p_image and p_token each has.
PAIRS = {
    change: {name: value for name, value in settings["munkey"].items() if name != "p_drop"}
    for change, settings in PARAMS.changes.items()
    if change.startswith("p_drop/")
}


def largest(dataset):
    return [max(RATES[dataset], key=float)]


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


RUNS = [run for dataset in PARAMS.datasets for run in main_runs(dataset)]
SHOWN_SEED = PARAMS.seeds[0]  # the one that is shown where a figure can show one only
CHARTS = {
    "overview": {"kind": "overview", "dataset": None},
    "forgetting": {"kind": "forgetting", "dataset": None},
    **({"neighbors": {"kind": "neighbors", "dataset": None}} if "inference.k" in PARAMS.ablations else {}),
    **{
        f"{kind}-{dataset}": {"kind": kind, "dataset": dataset}
        for kind in ("radar", "sensitivity", "tokens")
        for dataset in PARAMS.datasets
    },
}
FIGURES = [*CHARTS, *(f"retrieval-{dataset}-rate{largest(dataset)[0]}" for dataset in PARAMS.datasets)]


def chart_input(wildcards):
    """What a chart is drawn from."""
    kind, dataset = CHARTS[wildcards.chart].values()
    trace = f"results/trace/{dataset}/seed{SHOWN_SEED}.npz"
    return {
        "overview": {},
        "forgetting": {"table": "results/tables/main.csv"},
        "neighbors": {"table": "results/tables/ablations.csv"},
        "radar": {"table": f"results/selection/{dataset}/table.csv"},
        "sensitivity": {"trace": trace},
        "tokens": {"trace": trace, "classes": f"results/data/{dataset}/classes.json"},
    }[kind]


# What of a data set's parameters is held against the paper's.
COMPARED = {
    dataset: section(dataset, "data", "model", "train", "keys", "munkey", "inference", "finetune")
    for dataset in PARAMS.datasets
}


def grid_in_words():
    rates = ", ".join(f"{dataset}: {', '.join(names)}" for dataset, names in RATES.items())
    return f"Seeds {', '.join(map(str, PARAMS.seeds))}; forget rates {rates}; methods {', '.join(PARAMS.methods)}."
