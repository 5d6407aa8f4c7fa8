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
        runtime_latex="results/tables/runtime.tex",
        datasets="results/tables/datasets.md",
        datasets_latex="results/tables/datasets.tex",
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


rule compare:
    input:
        main="results/tables/main.csv",
        ablations="results/tables/ablations.csv",
    output:
        csv="results/tables/paper.csv",
        markdown="results/tables/paper.md",
        latex="results/tables/paper.tex",
    log:
        "logs/compare.log",
    benchmark:
        "results/benchmarks/compare.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        settings=COMPARED,
        seeds=len(PARAMS.seeds),
        code=code("compare.py"),
    message:
        "put the paper's numbers beside ours"
    script:
        "../scripts/compare.py"


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


rule page:
    input:
        "results/tracking.json",
        main="results/tables/main.csv",
        ablations="results/tables/ablations.csv",
        selections=expand("results/selection/{dataset}/table.csv", dataset=PARAMS.datasets),
        figures=expand("results/figures/{figure}.png", figure=FIGURES),
        records=sorted({run["record"] for run in RUNS}),
        template=workflow.source_path("../report/page.html.j2"),
    output:
        page="results/report/index.html",
    log:
        "logs/page.log",
    benchmark:
        "results/benchmarks/page.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        rows=table_rows(),
        settings=COMPARED,
        seeds=len(PARAMS.seeds),
        grid=grid_in_words(),
        uri=PARAMS.tracking.uri,
        code=code("page.py"),
    message:
        "make the report"
    script:
        "../scripts/page.py"
