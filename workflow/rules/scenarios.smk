# The same systems after other requests than random ones (docs/scenarios.md): `make scenarios`.


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
    log:
        LAYOUT.log("scenarios/{dataset}/table"),
    params:
        rows=EXHIBITS.scenario_rows,
        requests=lambda w: EXHIBITS.requests(w.dataset),
        code=code("tables.scenario_tables"),
    message:
        "make the tables of the scenarios of {wildcards.dataset}"
