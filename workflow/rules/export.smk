# MUNKEY's originals as directories that can be used anywhere: `make exports`; docs/serving.md.


rule settings:
    output:
        settings=LAYOUT.settings,
    log:
        LAYOUT.log("settings"),
    benchmark:
        LAYOUT.benchmark("settings")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        cases={case: PLAN.export_settings(case) for cases in PLAN.cases.values() for case in cases},
        code=code("settings.py"),
    message:
        "write down the settings, for `munkey export`"
    script:
        "../scripts/settings.py"


rule export:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        system=fill(LAYOUT.system, case="{dataset}", subset="full", system=memory_family().original),
        record=fill(LAYOUT.record, case="{dataset}", subset="full", system=memory_family().original),
        keyfile=lambda w: PLAN.keys(w.dataset),
        metrics=LAYOUT.metrics,
    output:
        manifest=update(fill(LAYOUT.export, part="manifest.json")),  # a model in use must keep it: `renew` may refuse
    log:
        LAYOUT.log("exports/{dataset}/seed{seed}"),
    benchmark:
        LAYOUT.benchmark("exports/{dataset}/seed{seed}")
    conda:
        "../envs/munkey.yaml"
    threads: PARAMS.threads
    params:
        sections=lambda w: PLAN.export_settings(w.dataset),
        weights=lambda w: PLAN.encoder_weights(w.dataset, PLAN.encoder_of(w.dataset)),
        code=lambda w: code("export.py", memory_family(), PLAN.encoder_builder(w.dataset, PLAN.encoder_of(w.dataset))),
    message:
        "export MUNKEY: {wildcards.dataset}, seed {wildcards.seed}"
    script:
        "../scripts/export.py"
