# The paper's figures and two more: `make figures`. Each as SVG and PNG under results/figures.


rule trace:
    input:
        unpack(prepared),
        unpack(selected_for),
        keyfile=keys_of,
        neighbors=lambda wildcards: f"results/neighbors/{wildcards.case}/{encoder_of(wildcards.case)}/full.npz",
    output:
        trace="results/trace/{case}/seed{seed}.npz",
    log:
        "logs/trace/{case}/seed{seed}.log",
    benchmark:
        "results/benchmarks/trace/{case}/seed{seed}.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        dataset=lambda wildcards: dataset_of(wildcards.case),
        settings=lambda wildcards: section(wildcards.case, "data", "model", "train", "munkey"),
        code=code("trace.py"),
    message:
        "train MUNKEY on {wildcards.case} once more, watched, seed {wildcards.seed}"
    script:
        "../scripts/trace.py"


rule chart:
    input:
        unpack(chart_input),
    output:
        svg="results/figures/{chart}.svg",
        png=report("results/figures/{chart}.png", caption="../report/figure.rst", category="Figures"),
    log:
        "logs/figures/{chart}.log",
    benchmark:
        "results/benchmarks/figures/{chart}.tsv"
    wildcard_constraints:
        chart=one_of(CHARTS),
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        kind=lambda wildcards: CHARTS[wildcards.chart]["kind"],
        dataset=lambda wildcards: CHARTS[wildcards.chart]["dataset"],
        seeds=PARAMS.seeds[:1],
        threshold=PARAMS.selection.threshold,
        code=code("chart.py"),
    message:
        "draw {wildcards.chart}"
    script:
        "../scripts/chart.py"


rule retrieval:
    input:
        unpack(prepared),
        forget=f"results/forget/{{dataset}}/seed{SHOWN_SEED}/rate{{rate}}.csv",
        full=lambda wildcards: f"results/neighbors/{wildcards.dataset}/{encoder_of(wildcards.dataset)}/full.npz",
        left=lambda wildcards: "results/neighbors/{0.dataset}/{1}/seed{2}/rate{0.rate}.npz".format(
            wildcards, encoder_of(wildcards.dataset), SHOWN_SEED
        ),
        before=f"results/logits/{{dataset}}/seed{SHOWN_SEED}/full/original-m.npz",
        after=f"results/logits/{{dataset}}/seed{SHOWN_SEED}/rate{{rate}}/munkey.npz",
    output:
        svg="results/figures/retrieval-{dataset}-rate{rate}.svg",
        png=report(
            "results/figures/retrieval-{dataset}-rate{rate}.png", caption="../report/figure.rst", category="Figures"
        ),
    log:
        "logs/figures/retrieval-{dataset}-rate{rate}.log",
    benchmark:
        "results/benchmarks/figures/retrieval-{dataset}-rate{rate}.tsv"
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        inference=lambda wildcards: section(wildcards.dataset, "inference")["inference"],
        code=code("retrieval.py"),
    message:
        "draw what {wildcards.dataset} retrieves before and after deletion"
    script:
        "../scripts/retrieval.py"
