# The same systems after other requests than random ones (docs/scenarios.md): `make scenarios`.
from munkey.studies.scenarios import plan as scenario_plan

SCENARIOS = scenario_plan.ScenarioPlan(EXHIBITS)
SCENARIO_DATASETS = scenario_plan.list_datasets(PARAMS)
SCENARIO_METRICS = LAYOUT.result_path("scenarios/{dataset}/metrics.csv")
SCENARIO_TABLE = LAYOUT.result_path("scenarios/{dataset}/table.{ending}")
SCENARIO_FIGURE = LAYOUT.result_path("scenarios/{dataset}/tow.{ending}")
SCENARIO_CHAPTER = LAYOUT.result_path("scenarios/{dataset}/chapter.json")
CHAPTERS.append(lambda: so_far("scenarios", expand(SCENARIO_CHAPTER, dataset=SCENARIO_DATASETS), in_paper=False))


rule scenarios:
    input:
        expand(SCENARIO_TABLE, dataset=SCENARIO_DATASETS, ending="md"),
        expand(SCENARIO_FIGURE, dataset=SCENARIO_DATASETS, ending=["svg", "png"]),
        LAYOUT.settings,


# Forget sets that are not random, also of data sets.
use rule forget as forget_request with:
    input:
        unpack(lambda w: PLAN.prepared(w.case)),
        unpack(lambda w: scenario_plan.list_sources(PLAN, w.case, int(w.seed))),
    output:
        forget=LAYOUT.forget,
    wildcard_constraints:
        case=plan.wildcard_pattern(PLAN.list_forget_cases(random=False)),
    params:
        names=lambda w: PARAMS.for_case(w.case).forget.names,
        depth=lambda w: PARAMS.for_case(w.case).keys.depth,
        k=lambda w: PARAMS.for_case(w.case).inference.k,
        code=code("studies.scenarios.jobs.forget_request"),


use rule metrics as scenario_metrics with:
    input:
        lambda w: plan.list_files(scenario_plan.list_scenario_runs(PLAN, w.dataset)),
    output:
        metrics=SCENARIO_METRICS,
    log:
        LAYOUT.log("scenarios/{dataset}/metrics"),
    params:
        runs=lambda w: [asdict(run) for run in scenario_plan.list_scenario_runs(PLAN, w.dataset)],
    message:
        "measure the scenarios of {wildcards.dataset}"


use rule job as scenario_tables with:
    input:
        metrics=SCENARIO_METRICS,
    output:
        **picture(SCENARIO_FIGURE, "scenarios", "Scenarios"),
        markdown=fill(SCENARIO_TABLE, ending="md"),
        csv=fill(SCENARIO_TABLE, ending="csv"),
        chapter=SCENARIO_CHAPTER,
    log:
        LAYOUT.log("scenarios/{dataset}/table"),
    params:
        rows=SCENARIOS.rows,
        requests=lambda w: SCENARIOS.describe_requests(w.dataset),
        code=code("studies.scenarios.tables.scenario_tables"),
    message:
        "make the tables of the scenarios of {wildcards.dataset}"
