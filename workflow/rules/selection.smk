# The selection of p_image and p_token (app. E): `make run TARGET=selection`.
from munkey.studies.selection.cases import list_pairs
from munkey.studies.selection.plan import SelectionPlan, list_selection_runs
from munkey.studies.selection.settings import SelectionSettings

SELECTION = SelectionPlan(PLAN)
SELECTION_METRICS = LAYOUT.result_path("selection/{dataset}/metrics.csv")
SELECTION_TABLE = LAYOUT.result_path("selection/{dataset}/table.{ending}")
SELECTION_CHAPTER = LAYOUT.result_path("selection/{dataset}/chapter.json")
CHAPTERS.append(lambda: so_far("selection", expand(SELECTION_CHAPTER, dataset=PARAMS.datasets)))
FIGURES |= SELECTION.figures


rule selection:
    input:
        expand(SELECTION_TABLE, dataset=PARAMS.datasets, ending="md"),


PAPER += rules.selection.input


use rule metrics as selection_metrics with:
    input:
        lambda w: plan.list_files(list_selection_runs(PLAN, w.dataset)),
    output:
        metrics=SELECTION_METRICS,
    log:
        LAYOUT.log("selection/{dataset}/metrics"),
    params:
        runs=lambda w: [asdict(run) for run in list_selection_runs(PLAN, w.dataset)],
    message:
        "measure every (p_image, p_token) of {wildcards.dataset}"


use rule job as select with:
    input:
        metrics=SELECTION_METRICS,
    output:
        chosen=LAYOUT.selection_chosen,
        table=fill(SELECTION_TABLE, ending="csv"),
    log:
        LAYOUT.log("selection/{dataset}/select"),
    params:
        settings=dump_settings(PARAMS.section(SelectionSettings)),
        pairs=list_pairs(PARAMS),
        required=lambda w: bool(PLAN.selection_input(w.dataset)),
        systems={"before": memory_family().original, "after": PLAN.ablated_method.name},
        code=code("studies.selection.jobs.select"),
    message:
        "choose p_image and p_token for {wildcards.dataset}"


use rule job as selection_tables with:
    input:
        table=fill(SELECTION_TABLE, ending="csv"),
    output:
        markdown=fill(SELECTION_TABLE, ending="md"),
        chapter=SELECTION_CHAPTER,
    log:
        LAYOUT.log("selection/{dataset}/tables"),
    params:
        code=code("studies.selection.tables.selection_tables"),
    message:
        "make the table of the selection of {wildcards.dataset}"


use rule job as selection_figure with:
    input:
        table=fill(SELECTION_TABLE, ending="csv"),
    output:
        **picture(fill(LAYOUT.figure, figure="selection-{dataset}"), "figure", "Figures"),
    log:
        LAYOUT.log("figures/selection-{dataset}"),
    params:
        threshold=PARAMS.section(SelectionSettings).threshold,
        caption=lambda w: FIGURES[f"selection-{w.dataset}"],
        code=code("studies.selection.figure.selection_figure"),
    message:
        "draw selection-{wildcards.dataset}"


use rule job as sensitivity_figure with:
    input:
        traces=lambda w: expand(LAYOUT.trace, case=w.dataset, seed=PARAMS.seeds),
    output:
        **picture(fill(LAYOUT.figure, figure="sensitivity-{dataset}"), "figure", "Figures"),
    log:
        LAYOUT.log("figures/sensitivity-{dataset}"),
    params:
        threshold=PARAMS.section(SelectionSettings).threshold,
        caption=lambda w: FIGURES[f"sensitivity-{w.dataset}"],
        code=code("studies.selection.figure.sensitivity_figure"),
    message:
        "draw sensitivity-{wildcards.dataset}"
