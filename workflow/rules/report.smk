# Tables, the summary that DVC compares, and the mirror in MLflow.


rule tables:
    input:
        metrics=expand("results/metrics/{dataset}.csv", dataset=PARAMS.datasets),
    output:
        tidy=report("results/metrics.csv", caption="../report/metrics.rst", category="Metrics"),
        html=report("results/tables/main.html", caption="../report/main.rst", category="Tables"),
        csv="results/tables/main.csv",
        markdown="results/tables/main.md",
        latex="results/tables/main.tex",
        runtime="results/tables/runtime.md",
    log:
        "logs/tables.log",
    benchmark:
        "results/benchmarks/tables.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        rows=table_rows(),
        code=code("tables.py"),
    message:
        "make the tables"
    script:
        "../scripts/tables.py"


rule summary:
    input:
        tables="results/tables/main.csv",
        records=sorted({run["training"] for run in RUNS}),
    output:
        metrics="results/summary/metrics.json",
        curves="results/summary/curves.csv",
        forgetting="results/summary/forgetting.csv",
    log:
        "logs/summary.log",
    benchmark:
        "results/benchmarks/summary.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code=code("summary.py"),
    message:
        "summarise for DVC"
    script:
        "../scripts/summary.py"


rule track:
    input:
        "results/metrics.csv",
        "results/tables/main.csv",
        "results/tables/main.md",
        "results/tables/runtime.md",
        files_of(RUNS),
        list(searches_of(RUNS)),
    output:
        mirrored="results/tracking.json",
    log:
        "logs/track.log",
    benchmark:
        "results/benchmarks/track.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        uri=PARAMS.tracking.uri,
        runs=RUNS,
        searches=searches_of(RUNS),
        rows=table_rows(),
        code=code("track.py"),
    message:
        "mirror every run in MLflow"
    script:
        "../scripts/track.py"
