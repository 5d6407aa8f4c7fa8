# The selection of p_image and p_token (app. E): `make run TARGET=selection`.
from munkey.studies.selection import cases as selection_cases
from munkey.studies.selection import plan as selection_plan
from munkey.studies.selection.settings import SelectionSettings


use rule metrics as selection_metrics with:
    input:
        lambda w: plan.list_files(selection_plan.list_selection_runs(PLAN, w.dataset)),
    output:
        metrics=LAYOUT.selection_metrics,
    log:
        LAYOUT.log("selection/{dataset}/metrics"),
    params:
        runs=lambda w: [asdict(run) for run in selection_plan.list_selection_runs(PLAN, w.dataset)],
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
        settings=dump_settings(PARAMS.section(SelectionSettings)),
        pairs=selection_cases.list_pairs(PARAMS),
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
