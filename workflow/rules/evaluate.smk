# Logits of every system on every split, kept; metrics from them.


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
    conda:
        "../envs/munkey.yaml"
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


rule metrics:
    input:
        lambda wildcards: files_of(evaluated(wildcards.dataset)),
    output:
        metrics="results/metrics/{dataset}.csv",
    log:
        "logs/metrics/{dataset}.log",
    benchmark:
        "results/benchmarks/metrics/{dataset}.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        runs=lambda wildcards: evaluated(wildcards.dataset),
        code=code("metrics.py"),
    message:
        "measure every system of {wildcards.dataset}"
    script:
        "../scripts/metrics.py"
