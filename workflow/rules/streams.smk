# Requests one after another (docs/scenarios.md), on the models of the audit's pool: `make run TARGET=streams`.


use rule gpu_job as stream with:
    input:
        unpack(lambda w: PLAN.prepared(f"{w.dataset}/audit/pool")),
        unpack(lambda w: STREAMS.list_input_files(w.dataset, w.seed, w.system)),
    output:
        logits=LAYOUT.stream_logits,
        record=LAYOUT.stream_record,
    log:
        LAYOUT.log("streams/{dataset}/seed{seed}/{system}"),
    params:
        method=lambda w: w.system,
        dataset=lambda w: w.dataset,
        settings=lambda w: dump_settings(STREAMS.get_settings(w.dataset, w.system)),
        requests=PARAMS.stream.requests,
        additions=PARAMS.stream.additions,
        depth=lambda w: PARAMS.for_case(w.dataset).keys.depth,
        code=code(
            "relearn.stream",
            lambda w: PLAN.method_code(w.system) if w.system in METHODS else [PLAN.find_family(w.system)],
        ),
    message:
        "requests one after another, {wildcards.system}: {wildcards.dataset}, seed {wildcards.seed}"


use rule job as stream_tables with:
    input:
        lambda w: [
            path for system in STREAMS.list_systems(w.dataset) for path in (*system["logits"], *system["records"])
        ],
    output:
        **picture(fill(LAYOUT.stream, part="curves.{ending}"), "streams", "Scenarios"),
        markdown=fill(LAYOUT.stream, part="table.md"),
        curves=fill(LAYOUT.stream, part="curves.csv"),
        shares=fill(LAYOUT.stream, part="shares.csv"),
    log:
        LAYOUT.log("streams/{dataset}/table"),
    params:
        systems=lambda w: STREAMS.list_systems(w.dataset),
        code=code("tables.stream_tables"),
    message:
        "make the tables of streams: {wildcards.dataset}"
