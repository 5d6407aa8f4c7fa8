# Ablations of MUNKEY (app. D) and the selection of p_image and p_token (app. E): `make ablations`, `make selection`.


use rule metrics as ablation_metrics with:
    input:
        lambda wildcards: files_of(ablation_runs(wildcards.dataset)),
    output:
        metrics="results/ablations/{dataset}.csv",
    log:
        "logs/ablations/{dataset}.log",
    benchmark:
        "results/benchmarks/ablations/{dataset}.tsv"
    params:
        runs=lambda wildcards: ablation_runs(wildcards.dataset),
        code=code("metrics.py"),
    message:
        "measure the ablations of {wildcards.dataset}"


rule ablation_tables:
    input:
        metrics=expand("results/ablations/{dataset}.csv", dataset=PARAMS.datasets),
    output:
        summary="results/tables/ablations.csv",
        tables=expand("results/tables/{table}.{ending}", table=ABLATION_TABLES, ending=["md", "tex"]),
    log:
        "logs/ablation_tables.log",
    benchmark:
        "results/benchmarks/ablation_tables.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code=code("ablation_tables.py"),
    message:
        "make the tables of the ablations"
    script:
        "../scripts/ablation_tables.py"


use rule metrics as selection_metrics with:
    input:
        lambda wildcards: files_of(selection_runs(wildcards.dataset)),
    output:
        metrics="results/selection/{dataset}/metrics.csv",
    log:
        "logs/selection/{dataset}/metrics.log",
    benchmark:
        "results/benchmarks/selection/{dataset}/metrics.tsv"
    params:
        runs=lambda wildcards: selection_runs(wildcards.dataset),
        code=code("metrics.py"),
    message:
        "measure every (p_image, p_token) of {wildcards.dataset}"


rule select:
    input:
        metrics="results/selection/{dataset}/metrics.csv",
    output:
        chosen="results/selection/{dataset}/chosen.json",
        table="results/selection/{dataset}/table.csv",
        markdown="results/selection/{dataset}/table.md",
        latex="results/selection/{dataset}/table.tex",
    log:
        "logs/selection/{dataset}/select.log",
    benchmark:
        "results/benchmarks/selection/{dataset}/select.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        settings={"selection": PARAMS.selection.model_dump()},
        pairs=PAIRS,
        code=code("select.py"),
    message:
        "choose p_image and p_token for {wildcards.dataset}"
    script:
        "../scripts/select.py"
