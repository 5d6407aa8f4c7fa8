# Does what was forgotten come back? Every system is trained further on the retain set (docs/audits.md): `make run TARGET=relearning`.


use rule gpu_job as relearn with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        unpack(lambda w: RELEARNING.list_input_files(w.dataset, w.seed, w.system)),
    output:
        curve=LAYOUT.relearned,
    log:
        LAYOUT.log("audit/{dataset}/relearned/seed{seed}/{system}"),
    params:
        settings=lambda w: dump_settings(RELEARNING.get_settings(w.dataset, w.system)),
        code=code("relearn.relearn", lambda w: [PLAN.find_family(w.system)]),
    message:
        "train {wildcards.system} further on the retain set: {wildcards.dataset}, seed {wildcards.seed}"


use rule job as relearning_table with:
    input:
        lambda w: [path for system in RELEARNING.list_systems(w.dataset) for path in system["curves"]],
    output:
        **picture(fill(LAYOUT.relearning, part="curves.{ending}"), "relearning", "Audit"),
        markdown=fill(LAYOUT.relearning, part="table.md"),
        curves=fill(LAYOUT.relearning, part="curves.csv"),
        table=fill(LAYOUT.relearning, part="table.csv"),
    log:
        LAYOUT.log("audit/{dataset}/relearning"),
    params:
        systems=lambda w: RELEARNING.list_systems(w.dataset),
        seeds=PARAMS.seeds,
        code=code("tables.relearning_table"),
    message:
        "compare the relearning of {wildcards.dataset} with the oracle's"
