# A page a data set, on which single samples are looked at: `make explore` (docs/explore.md).
from munkey.studies.explore.plan import ExplorePlan

EXPLORE = ExplorePlan(PLAN)


# Scenarios are on the page as soon as their tables were made.
explores_scenarios = lambda dataset: (
    so_far("scenarios", expand(SCENARIO_TABLE, dataset=dataset, ending="csv"), in_paper=False)
    if dataset in SCENARIO_DATASETS
    else []
)
# The report links pages, but none that shows a user's own pictures: a report is handed on.
EXPLORED.append(
    lambda: so_far(
        "explore",
        [
            fill(LAYOUT.explore, dataset=name)
            for name in PARAMS.datasets
            if not (EXPLORE.is_own(name) and EXPLORE.settings.pictures)
        ],
    )
)


rule explore:
    input:
        expand(LAYOUT.explore, dataset=PARAMS.datasets),


PAPER += rules.explore.input


use rule job as explore_page with:
    input:
        lambda w: EXPLORE.list_result_files(w.dataset, bool(explores_scenarios(w.dataset))),
        lambda w: list(EXPLORE.list_neighbor_files(w.dataset, bool(explores_scenarios(w.dataset))).values()),
        unpack(lambda w: PLAN.prepared(w.dataset)),
        keyfile=lambda w: PLAN.keys(w.dataset),
        assets=sorted(str(path) for path in Path("src/munkey/explore/assets").rglob("*.*")),
        main_table=table("main", "csv"),
        differences=table("differences", "csv"),
        columns="src/munkey/report/page/glossary.csv",
        audits=lambda w: expand(LAYOUT.audit, dataset={w.dataset} & {*audited(w)}, part="table.csv"),
        scenarios=lambda w: explores_scenarios(w.dataset),
        streams=lambda w: so_far(
            "streams", expand(LAYOUT.result_path("streams/{dataset}/curves.csv"), dataset=w.dataset), in_paper=False
        ),
    output:
        page=LAYOUT.explore,
    log:
        LAYOUT.log("explore/{dataset}"),
    params:
        name=PARAMS.name,
        dataset=lambda w: w.dataset,
        runs=lambda w: [asdict(run) for run in EXPLORE.list_runs(w.dataset, bool(explores_scenarios(w.dataset)))],
        near=lambda w: EXPLORE.list_neighbor_files(w.dataset, bool(explores_scenarios(w.dataset))),
        rows=EXHIBITS.rows,
        designs=EXHIBITS.designs,
        neighbor_counts=lambda w: EXPLORE.count_answering_neighbors(w.dataset),
        requests=lambda w: SCENARIOS.describe_requests(w.dataset),
        settings=dump_settings(EXPLORE.settings),
        code=code("studies.explore.page.explore"),
    message:
        "make the page on which single samples of {wildcards.dataset} are looked at"
