# Logits of every system on every split, kept; metrics from them.


def has_memory(name):
    return name in ("original-m", "retrain-m") or name in METHODS and METHODS[name].base != "vit"


def memory_of(wildcards):
    return {"neighbors": neighbors_of(wildcards)} if has_memory(wildcards.system) else {}


def evaluate_settings(wildcards):
    """What a system's answers depend on: retrieval only where there is a memory, of it only K for KNN."""
    inference = section(wildcards.dataset, "inference")["inference"] if has_memory(wildcards.system) else {}
    if wildcards.system == "knn":
        inference = {"k": inference["k"]}
    return section(wildcards.dataset, "data") | {"inference": inference}


rule evaluate:
    input:
        unpack(prepared),
        unpack(memory_of),
        system="results/models/{dataset}/seed{seed}/{subset}/{system}/system.safetensors",
    output:
        logits="results/logits/{dataset}/seed{seed}/{subset}/{system}.npz",
    log:
        "logs/evaluate/{dataset}/seed{seed}/{subset}/{system}.log",
    benchmark:
        "results/benchmarks/evaluate/{dataset}/seed{seed}/{subset}/{system}.tsv"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        folder="results/data/{dataset}",
        settings=evaluate_settings,
        code=code("evaluate.py"),
    message:
        "evaluate {wildcards.system}: {wildcards.dataset}, seed {wildcards.seed}, {wildcards.subset}"
    script:
        "../scripts/evaluate.py"


def training_record(dataset, seed, system):
    """The record of the training that a method starts from; None for what was itself trained from fresh weights."""
    letter = {"vit": "t", "munkey": "m"}.get(METHODS[system].base) if system in METHODS else None
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


rule metrics:
    input:
        lambda wildcards: files_of(evaluated(wildcards.dataset)),
    output:
        metrics="results/metrics/{dataset}.csv",
    log:
        "logs/metrics/{dataset}.log",
    benchmark:
        "results/benchmarks/metrics/{dataset}.tsv"
    threads: 1
    params:
        runs=lambda wildcards: evaluated(wildcards.dataset),
        code=code("metrics.py"),
    message:
        "measure every system of {wildcards.dataset}"
    script:
        "../scripts/metrics.py"
