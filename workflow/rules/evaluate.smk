# Logits of every system on every split, kept; metrics from them.


rule evaluate:
    input:
        unpack(prepared),
        unpack(memory_of),
        system=system_of,
    output:
        logits="results/logits/{case}/seed{seed}/{subset}/{system}.npz",
    log:
        "logs/evaluate/{case}/seed{seed}/{subset}/{system}.log",
    benchmark:
        "results/benchmarks/evaluate/{case}/seed{seed}/{subset}/{system}.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        dataset=lambda wildcards: dataset_of(wildcards.case),
        settings=evaluate_settings,
        code=code("evaluate.py"),
    message:
        "evaluate {wildcards.system}: {wildcards.case}, seed {wildcards.seed}, {wildcards.subset}"
    script:
        "../scripts/evaluate.py"


rule metrics:
    input:
        lambda wildcards: files_of(main_runs(wildcards.dataset)),
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
        runs=lambda wildcards: main_runs(wildcards.dataset),
        code=code("metrics.py"),
    message:
        "measure every system of {wildcards.dataset}"
    script:
        "../scripts/metrics.py"
