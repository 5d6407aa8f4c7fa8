# Ablations of MUNKEY (app. D): `make run TARGET=ablations`.


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
