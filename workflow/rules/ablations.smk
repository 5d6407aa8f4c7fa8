# Ablations of MUNKEY (app. D) and the selection of p_image and p_token (app. E): `make run TARGET=ablations`, `make run TARGET=selection`.


use rule metrics as ablation_metrics with:
    input:
        lambda w: plan.list_files(PLAN.list_ablation_runs(w.dataset)),
    output:
        metrics=LAYOUT.ablation_metrics,
    log:
        LAYOUT.log("ablations/{dataset}"),
    params:
        runs=lambda w: [asdict(run) for run in PLAN.list_ablation_runs(w.dataset)],
    message:
        "measure the ablations of {wildcards.dataset}"


use rule job as ablation_tables with:
    input:
        metrics=expand(LAYOUT.ablation_metrics, dataset=PLAN.ablated_datasets),
    output:
        summary=table("ablations", "csv"),
        tables=expand(LAYOUT.table, table=exhibits.ABLATION_TABLES, ending=["md", "tex"]),
    log:
        LAYOUT.log("ablation_tables"),
    params:
        rows=EXHIBITS.ablation_rows,
        code=code("tables.ablation_tables"),
    message:
        "make the tables of the ablations"


use rule metrics as selection_metrics with:
    input:
        lambda w: plan.list_files(PLAN.list_selection_runs(w.dataset)),
    output:
        metrics=LAYOUT.selection_metrics,
    log:
        LAYOUT.log("selection/{dataset}/metrics"),
    params:
        runs=lambda w: [asdict(run) for run in PLAN.list_selection_runs(w.dataset)],
    message:
        "measure every (p_image, p_token) of {wildcards.dataset}"


use rule job as select with:
    input:
        metrics=LAYOUT.selection_metrics,
    output:
        chosen=LAYOUT.selection_chosen,
        table=fill(LAYOUT.selection_table, ending="csv"),
    log:
        LAYOUT.log("selection/{dataset}/select"),
    params:
        settings=dump_settings(PARAMS.selection),
        pairs=EXHIBITS.pairs,
        required=lambda w: bool(PLAN.selection_input(w.dataset)),
        systems={"before": memory_family().original, "after": PLAN.ablated_method.name},
        code=code("search.select"),
    message:
        "choose p_image and p_token for {wildcards.dataset}"


use rule job as selection_tables with:
    input:
        table=fill(LAYOUT.selection_table, ending="csv"),
    output:
        markdown=fill(LAYOUT.selection_table, ending="md"),
    log:
        LAYOUT.log("selection/{dataset}/tables"),
    params:
        code=code("tables.selection_tables"),
    message:
        "make the table of the selection of {wildcards.dataset}"
