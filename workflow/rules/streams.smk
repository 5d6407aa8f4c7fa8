# Requests one after another (docs/scenarios.md), on the models of the audit's pool: `make run TARGET=streams`.
from munkey.studies.audits.cases import POOL
from munkey.studies.streams.plan import StreamPlan

STREAMS = StreamPlan(PLAN)


rule streams:
    input:
        expand(STREAMS.result, dataset=PARAMS.datasets, part=["table.md", "curves.svg", "curves.png"]),


use rule gpu_job as stream with:
    input:
        unpack(lambda w: PLAN.prepared(f"{w.dataset}/{POOL}")),
        unpack(lambda w: STREAMS.list_input_files(w.dataset, w.seed, w.system)),
    output:
        logits=STREAMS.logits,
        record=STREAMS.record,
    log:
        LAYOUT.log("streams/{dataset}/seed{seed}/{system}"),
    params:
        method=lambda w: w.system,
        dataset=lambda w: w.dataset,
        settings=lambda w: dump_settings(STREAMS.get_settings(w.dataset, w.system)),
        requests=STREAMS.settings.requests,
        additions=STREAMS.settings.additions,
        depth=lambda w: PARAMS.for_case(w.dataset).keys.depth,
        code=code(
            "studies.streams.jobs.stream",
            lambda w: PLAN.system_code(f"{w.dataset}/{POOL}", w.system),
        ),
    message:
        "requests one after another, {wildcards.system}: {wildcards.dataset}, seed {wildcards.seed}"


use rule job as stream_tables with:
    input:
        lambda w: [
            path for system in STREAMS.list_systems(w.dataset) for path in (*system["logits"], *system["records"])
        ],
    output:
        **picture(fill(STREAMS.result, part="curves.{ending}"), "streams", "Scenarios"),
        markdown=fill(STREAMS.result, part="table.md"),
        curves=fill(STREAMS.result, part="curves.csv"),
        shares=fill(STREAMS.result, part="shares.csv"),
    log:
        LAYOUT.log("streams/{dataset}/table"),
    params:
        systems=lambda w: STREAMS.list_systems(w.dataset),
        code=code("studies.streams.tables.stream_tables"),
    message:
        "make the tables of streams: {wildcards.dataset}"
