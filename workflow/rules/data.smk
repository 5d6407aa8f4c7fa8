# Data sets: decoded once, mapped into memory by every later job.
rule data:
    output:
        images="results/data/{dataset}/images.npy",
        samples="results/data/{dataset}/samples.csv",
        classes="results/data/{dataset}/classes.json",
    log:
        "logs/data/{dataset}.log",
    benchmark:
        "results/benchmarks/data/{dataset}.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        source=lambda wildcards: section(wildcards.dataset, "source")["source"],
        state=lambda wildcards: disk_state(wildcards.dataset),
        code=lambda wildcards: code("data.py", DATASETS[wildcards.dataset].load.__module__),
    message:
        "prepare the data set {wildcards.dataset}"
    script:
        "../scripts/data.py"
