# MUNKEY's originals as directories that can be used anywhere: `make exports`; docs/serving.md.


use rule job as settings with:
    output:
        settings=LAYOUT.settings,
    log:
        LAYOUT.log("settings"),
    params:
        cases={case: dump_settings(PLAN.export_settings(case)) for cases in PLAN.cases.values() for case in cases},
        code=code("settings.settings"),
    message:
        "write down the settings, for `munkey export`"


use rule cpu_job as export with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        system=fill(LAYOUT.system, case="{dataset}", subset="full", system=memory_family().original),
        record=fill(LAYOUT.record, case="{dataset}", subset="full", system=memory_family().original),
        keyfile=lambda w: PLAN.keys(w.dataset),
        metrics=LAYOUT.metrics,
    output:
        manifest=update(fill(LAYOUT.export, part="manifest.json")),  # a model in use must keep it: `renew` may refuse
        exported=LAYOUT.exported,  # then there is none: Snakemake takes a manifest that it put back for a new one
    log:
        LAYOUT.log("exports/{dataset}/seed{seed}"),
    params:
        sections=lambda w: dump_settings(PLAN.export_settings(w.dataset)),
        weights=lambda w: PLAN.encoder_weights(w.dataset, PLAN.get_encoder_name(w.dataset)),
        code=code(
            "export.export",
            lambda w: [memory_family(), *PLAN.encoder_builders(w.dataset, PLAN.get_encoder_name(w.dataset))],
        ),
    message:
        "export MUNKEY: {wildcards.dataset}, seed {wildcards.seed}"
