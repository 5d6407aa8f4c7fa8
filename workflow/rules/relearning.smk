# Does what was forgotten come back? Every system is trained further on the retain set (docs/audits.md): `make run TARGET=relearning`.
from munkey.studies.relearning.plan import RelearnPlan

RELEARNING = RelearnPlan(PLAN)


rule relearning:
    input:
        expand(RELEARNING.result, dataset=PARAMS.datasets, part=["table.md", "curves.svg", "curves.png"]),


use rule gpu_job as relearn with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        unpack(lambda w: RELEARNING.list_input_files(w.dataset, w.seed, w.system)),
    output:
        curve=RELEARNING.curve,
    log:
        LAYOUT.log("audit/{dataset}/relearned/seed{seed}/{system}"),
    params:
        settings=lambda w: dump_settings(RELEARNING.get_settings(w.dataset, w.system)),
        code=code("studies.relearning.jobs.relearn", lambda w: PLAN.family_code(w.dataset, PLAN.find_family(w.system))),
    message:
        "train {wildcards.system} further on the retain set: {wildcards.dataset}, seed {wildcards.seed}"


use rule job as relearning_table with:
    input:
        lambda w: [path for system in RELEARNING.list_systems(w.dataset) for path in system["curves"]],
    output:
        **picture(fill(RELEARNING.result, part="curves.{ending}"), "relearning", "Audit"),
        markdown=fill(RELEARNING.result, part="table.md"),
        curves=fill(RELEARNING.result, part="curves.csv"),
        table=fill(RELEARNING.result, part="table.csv"),
    log:
        LAYOUT.log("audit/{dataset}/relearning"),
    params:
        systems=lambda w: RELEARNING.list_systems(w.dataset),
        seeds=PARAMS.seeds,
        code=code("studies.relearning.tables.relearning_table"),
    message:
        "compare the relearning of {wildcards.dataset} with the oracle's"
