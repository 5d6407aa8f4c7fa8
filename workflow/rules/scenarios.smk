# The same systems after other requests than random ones (docs/scenarios.md): `make scenarios`.
from munkey.studies.scenarios.plan import ScenarioPlan

SCENARIOS = ScenarioPlan(EXHIBITS)
SCENARIO_CHAPTER = LAYOUT.result_path("scenarios/{dataset}/chapter.json")
CHAPTERS.append(lambda: so_far("scenarios", expand(SCENARIO_CHAPTER, dataset=PLAN.scenario_datasets), in_paper=False))
REQUESTS |= {dataset: SCENARIOS.describe_requests(dataset) for dataset in PLAN.scenario_datasets}


rule scenarios:
    input:
        expand(LAYOUT.scenario_table, dataset=PLAN.scenario_datasets, ending="md"),
        expand(LAYOUT.scenario_figure, dataset=PLAN.scenario_datasets, ending=["svg", "png"]),
        LAYOUT.settings,


use rule metrics as scenario_metrics with:
    input:
        lambda w: plan.list_files(PLAN.list_scenario_runs(w.dataset)),
    output:
        metrics=LAYOUT.scenario_metrics,
    log:
        LAYOUT.log("scenarios/{dataset}/metrics"),
    params:
        runs=lambda w: [asdict(run) for run in PLAN.list_scenario_runs(w.dataset)],
    message:
        "measure the scenarios of {wildcards.dataset}"


use rule job as scenario_tables with:
    input:
        metrics=LAYOUT.scenario_metrics,
    output:
        **picture(LAYOUT.scenario_figure, "scenarios", "Scenarios"),
        markdown=fill(LAYOUT.scenario_table, ending="md"),
        csv=fill(LAYOUT.scenario_table, ending="csv"),
        chapter=SCENARIO_CHAPTER,
    log:
        LAYOUT.log("scenarios/{dataset}/table"),
    params:
        rows=SCENARIOS.rows,
        requests=lambda w: REQUESTS[w.dataset],
        code=code("studies.scenarios.tables.scenario_tables"),
    message:
        "make the tables of the scenarios of {wildcards.dataset}"
