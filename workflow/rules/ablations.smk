# Ablations of MUNKEY (app. D): `make run TARGET=ablations`.
from munkey.studies.ablations.plan import TABLES, AblationPlan, list_ablation_runs, list_datasets

ABLATIONS = AblationPlan(PLAN)
ABLATION_TABLES = expand(LAYOUT.table, table=TABLES, ending=["md", "tex"])
ABLATION_METRICS = LAYOUT.result_path("ablations/{dataset}.csv")
ABLATION_CHAPTER = LAYOUT.result_path("tables/ablations-chapter.json")
CHAPTERS.append(lambda: so_far("ablations", [ABLATION_CHAPTER]))
FIGURES |= ABLATIONS.figures


rule ablations:
    input:
        ABLATION_TABLES,
        table("ablations", "csv"),


PAPER += rules.ablations.input


use rule metrics as ablation_metrics with:
    input:
        lambda w: plan.list_files(list_ablation_runs(PLAN, w.dataset)),
    output:
        metrics=ABLATION_METRICS,
    log:
        LAYOUT.log("ablations/{dataset}"),
    params:
        runs=lambda w: [asdict(run) for run in list_ablation_runs(PLAN, w.dataset)],
    message:
        "measure the ablations of {wildcards.dataset}"


use rule job as ablation_tables with:
    input:
        metrics=expand(ABLATION_METRICS, dataset=list_datasets(PARAMS)),
    output:
        summary=table("ablations", "csv"),
        tables=ABLATION_TABLES,
        chapter=ABLATION_CHAPTER,
    log:
        LAYOUT.log("ablation_tables"),
    params:
        rows=ABLATIONS.rows,
        code=code("studies.ablations.tables.ablation_tables"),
    message:
        "make the tables of the ablations"


use rule job as neighbors_figure with:
    input:
        table=table("ablations", "csv"),
    output:
        **picture(fill(LAYOUT.figure, figure="neighbors"), "figure", "Figures"),
    log:
        LAYOUT.log("figures/neighbors"),
    params:
        caption=FIGURES.get("neighbors", ""),
        code=code("studies.ablations.figure.neighbors_figure"),
    message:
        "draw neighbors"
