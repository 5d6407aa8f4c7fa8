# Logits of every system on every split, kept; metrics from them.


rule evaluate:
    input:
        unpack(lambda w: PLAN.prepared(w.case)),
        unpack(lambda w: PLAN.evaluate_input(w.case, w.seed, w.subset, w.system)),
    output:
        logits=LAYOUT.logits,
    log:
        LAYOUT.log("evaluate/{case}/seed{seed}/{subset}/{system}"),
    benchmark:
        LAYOUT.benchmark("evaluate/{case}/seed{seed}/{subset}/{system}")
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    resources:
        gpu=GPUS,
    params:
        settings=lambda w: PLAN.evaluate_settings(w.case, w.system),
        code=lambda w: code("evaluate.py", PLAN.family_of(w.system)),
    message:
        "evaluate {wildcards.system}: {wildcards.case}, seed {wildcards.seed}, {wildcards.subset}"
    script:
        "../scripts/evaluate.py"


rule metrics:
    input:
        lambda w: plan.files_of(PLAN.main_of(w.dataset)),
    output:
        metrics=LAYOUT.metrics,
    log:
        LAYOUT.log("metrics/{dataset}"),
    benchmark:
        LAYOUT.benchmark("metrics/{dataset}")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        runs=lambda w: [asdict(run) for run in PLAN.main_of(w.dataset)],
        code=code("metrics.py"),
    message:
        "measure every system of {wildcards.dataset}"
    script:
        "../scripts/metrics.py"
