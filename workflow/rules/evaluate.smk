# Logits of every system on every split, kept; metrics from them.


use rule gpu_job as evaluate with:
    input:
        unpack(lambda w: PLAN.prepared(w.case)),
        unpack(lambda w: PLAN.evaluate_input(w.case, w.seed, w.subset, w.system)),
        unpack(lambda w: PLAN.pool(w.case, w.seed)),
    output:
        logits=LAYOUT.logits,
    log:
        LAYOUT.log("evaluate/{case}/seed{seed}/{subset}/{system}"),
    params:
        settings=lambda w: dump_settings(PLAN.evaluate_settings(w.case, w.system)),
        code=code("evaluate.evaluate", lambda w: PLAN.family_code(w.case, PLAN.find_family(w.system))),
    message:
        "evaluate {wildcards.system}: {wildcards.case}, seed {wildcards.seed}, {wildcards.subset}"


use rule job as metrics with:
    input:
        lambda w: plan.list_files(PLAN.list_main_runs(w.dataset)),
    output:
        metrics=LAYOUT.metrics,
        differences=LAYOUT.differences,
    log:
        LAYOUT.log("metrics/{dataset}"),
    params:
        runs=lambda w: [asdict(run) for run in PLAN.list_main_runs(w.dataset)],
        code=code("metrics.metrics"),
    message:
        "measure every system of {wildcards.dataset}"
