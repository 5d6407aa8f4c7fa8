# Ablations of MUNKEY (app. D) and the selection of p_image and p_token (app. E): `make ablations`, `make selection`.


use rule metrics as ablation_metrics with:
    input:
        lambda w: plan.files_of(PLAN.ablations_of(w.dataset)),
    output:
        metrics=layout.ABLATION_METRICS,
    log:
        layout.log("ablations/{dataset}"),
    benchmark:
        layout.benchmark("ablations/{dataset}")
    params:
        runs=lambda w: [asdict(run) for run in PLAN.ablations_of(w.dataset)],
        code=code("metrics.py"),
    message:
        "measure the ablations of {wildcards.dataset}"


rule ablation_tables:
    input:
        metrics=expand(layout.ABLATION_METRICS, dataset=PLAN.ablated_datasets),
    output:
        summary=table("ablations", "csv"),
        tables=expand(layout.TABLE, table=shown.ABLATION_TABLES, ending=["md", "tex"]),
    log:
        layout.log("ablation_tables"),
    benchmark:
        layout.benchmark("ablation_tables")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        rows=SHOWN.ablation_rows,
        code=code("ablation_tables.py"),
    message:
        "make the tables of the ablations"
    script:
        "../scripts/ablation_tables.py"


use rule metrics as selection_metrics with:
    input:
        lambda w: plan.files_of(PLAN.selection_of(w.dataset)),
    output:
        metrics=layout.SELECTION_METRICS,
    log:
        layout.log("selection/{dataset}/metrics"),
    benchmark:
        layout.benchmark("selection/{dataset}/metrics")
    params:
        runs=lambda w: [asdict(run) for run in PLAN.selection_of(w.dataset)],
        code=code("metrics.py"),
    message:
        "measure every (p_image, p_token) of {wildcards.dataset}"


rule select:
    input:
        metrics=layout.SELECTION_METRICS,
    output:
        chosen=layout.SELECTION_CHOSEN,
        table=layout.fill(layout.SELECTION_TABLE, ending="csv"),
        markdown=layout.fill(layout.SELECTION_TABLE, ending="md"),
        latex=layout.fill(layout.SELECTION_TABLE, ending="tex"),
    log:
        layout.log("selection/{dataset}/select"),
    benchmark:
        layout.benchmark("selection/{dataset}/select")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        settings={"selection": PARAMS.selection.model_dump()},
        pairs=SHOWN.pairs,
        required=lambda w: bool(PLAN.selected(w.dataset)),
        systems={"before": ablated().original, "after": PLAN.ablated_method.name},
        code=code("select.py"),
    message:
        "choose p_image and p_token for {wildcards.dataset}"
    script:
        "../scripts/select.py"
