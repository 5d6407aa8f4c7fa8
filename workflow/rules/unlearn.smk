# Unlearning methods, each on the original that it starts from.


def original_of(wildcards):
    """The trained original, or the keys for a method that needs no training."""
    base = METHODS[wildcards.method].base
    if base == "keys":
        return {"keyfile": keys_of(wildcards)}
    letter = {"vit": "t", "munkey": "m"}[base]
    folder = f"results/models/{wildcards.dataset}/seed{wildcards.seed}/full/original-{letter}"
    return {"original": f"{folder}/system.safetensors"}


def unlearn_settings(wildcards):
    """The method's own section; the shared ones only where it fine-tunes on data; the architecture it expects."""
    method = METHODS[wildcards.method]
    names = {"keys": [], "vit": ["data", "model"], "munkey": ["data", "model", "munkey"]}[method.base]
    settings = section(wildcards.dataset, *names, *(["train", "finetune"] if method.needs else []))
    return settings | {"method": section(wildcards.dataset, "unlearn")["unlearn"][method.name]}


rule unlearn:
    input:
        unpack(prepared),
        unpack(original_of),
        forget="results/forget/{dataset}/seed{seed}/rate{rate}.csv",
    output:
        system="results/models/{dataset}/seed{seed}/rate{rate}/{method}/system.safetensors",
        record="results/models/{dataset}/seed{seed}/rate{rate}/{method}/record.json",
    log:
        "logs/unlearn/{dataset}/seed{seed}/rate{rate}/{method}.log",
    benchmark:
        "results/benchmarks/unlearn/{dataset}/seed{seed}/rate{rate}/{method}.tsv"
    threads: PARAMS.threads
    resources:
        gpu=lambda wildcards: GPUS if METHODS[wildcards.method].needs else 0,
    params:
        folder="results/data/{dataset}",
        settings=unlearn_settings,
        code=lambda wildcards: code("unlearn.py", METHODS[wildcards.method].run.__module__),
    message:
        "unlearn with {wildcards.method}: {wildcards.dataset}, seed {wildcards.seed}, rate {wildcards.rate}"
    script:
        "../scripts/unlearn.py"
