# How much is left of what was deleted, by pairs of models that swap halves of a pool (docs/audits.md): `make audits`.
from munkey.studies.audits import cases as audit_cases
from munkey.studies.audits.plan import PATHS, AuditPlan, list_attack_functions

AUDITS = AuditPlan(PLAN)
AUDIT_CHAPTER = fill(LAYOUT.audit, part="chapter.json")
AUDITED.append(
    lambda: (
        AUDITS.in_paper
        if "paper" in targets()
        else [
            name for name in PARAMS.datasets if so_far("audits", expand(LAYOUT.audit, dataset=name, part="table.csv"))
        ]
    )
)
CHAPTERS.insert(0, lambda: expand(AUDIT_CHAPTER, dataset=audited(None)))  # the first on the page


rule audits:
    input:
        table("main-audited", "md"),
        expand(
            LAYOUT.audit,
            dataset=PARAMS.datasets,
            part=["table.md", "storage.md", "attacks.md", "differencing.md", "frontier.md"],
        ),
        LAYOUT.report,


if AUDITS.in_paper:
    PAPER += rules.audits.input


rule audit_grids:
    input:
        expand(LAYOUT.audit, dataset=PARAMS.datasets, part=["grid.md", "grid.svg"]),


rule differencing:
    input:
        expand(LAYOUT.audit, dataset=PARAMS.datasets, part="differencing.md"),


use rule job as half with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        unpack(lambda w: {"keyfile": PLAN.keys(w.dataset)} if AUDITS.settings.pool_of == "cluster" else {}),
    output:
        half=LAYOUT.result_path(audit_cases.HALF),
    log:
        LAYOUT.log("audit/{dataset}/halves/seed{seed}"),
    priority: 1  # before any training: a pool that is too small or too large is noticed at once
    params:
        pool=AUDITS.settings.pool,
        pool_of=AUDITS.settings.pool_of,
        draw=AUDITS.settings.draw,
        depth=lambda w: PARAMS.for_case(w.dataset).keys.depth,
        code=code("studies.audits.jobs.half"),
    message:
        "draw the half of the audit's pool that seed {wildcards.seed} forgets: {wildcards.dataset}"


use rule job as hardest_half with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        neighbors=lambda w: PLAN.neighbors(w.dataset, w.seed, "full"),
    output:
        half=LAYOUT.result_path(audit_cases.HARDEST_HALF),
    log:
        LAYOUT.log("audit/{dataset}/hardest/seed{seed}"),
    priority: 1
    params:
        pool=AUDITS.settings.pool,
        depth=lambda w: PARAMS.for_case(w.dataset).keys.depth,
        code=code("studies.audits.jobs.hardest_half"),
    message:
        "draw the half of the hardest samples that seed {wildcards.seed} forgets: {wildcards.dataset}"


use rule job as mislabel with:
    input:
        LAYOUT.samples,
        LAYOUT.classes,
        source=LAYOUT.images,
        pool=lambda w: AUDITS.list_halves(w.dataset)[:2],
    output:
        images=LAYOUT.result_path(f"{audit_cases.MISLABELED}/images.npy"),
        samples=LAYOUT.result_path(f"{audit_cases.MISLABELED}/samples.csv"),
        classes=LAYOUT.result_path(f"{audit_cases.MISLABELED}/classes.json"),
    log:
        LAYOUT.log("audit/{dataset}/mislabel"),
    params:
        code=code("studies.audits.jobs.mislabel"),
    message:
        "give the audit's pool wrong labels: {wildcards.dataset}"


use rule gpu_job as perturbed_keys with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        pool=lambda w: AUDITS.list_halves(w.dataset)[:2],
    output:
        perturbed_keys=LAYOUT.perturbed_keys,
    log:
        LAYOUT.log("audit/{dataset}/perturbed/{encoder}"),
    params:
        settings=lambda w: dump_settings(PLAN.encoder_settings(w.dataset, w.encoder)),
        weights=lambda w: PLAN.encoder_weights(w.dataset, w.encoder),
        code=code("studies.audits.jobs.perturbed_keys", lambda w: PLAN.encoder_builders(w.dataset, w.encoder)),
    message:
        "extract the keys of the audit's perturbed pictures of {wildcards.dataset} with {wildcards.encoder}"


use rule job as audit with:
    input:
        halves=lambda w: AUDITS.list_halves(w.dataset),
        logits=lambda w: [path for system in AUDITS.list_systems(w.dataset) for path in system["logits"]],
        power="src/munkey/audits/power.csv",
    output:
        **picture(audit_part("shares"), "shares", "Audit"),
        markdown=fill(LAYOUT.audit, part="table.md"),
        table=fill(LAYOUT.audit, part="table.csv"),
        controls=fill(LAYOUT.audit, part="controls.json"),
        strata=fill(LAYOUT.audit, part="strata.md"),
        strata_svg=fill(LAYOUT.audit, part="strata.svg"),
        strata_png=report(fill(LAYOUT.audit, part="strata.png"), caption="../report/shares.rst", category="Audit"),
    log:
        LAYOUT.log("audit/{dataset}/audit"),
    params:
        systems=lambda w: AUDITS.list_systems(w.dataset),
        code=code("studies.audits.table_jobs.audit", lambda _: list_attack_functions("pairs")),
    message:
        "audit what is left of what was deleted: {wildcards.dataset}"


use rule job as audit_grid with:
    input:
        halves=lambda w: AUDITS.list_grid_halves(w.dataset),
        logits=lambda w: [
            path
            for point in AUDITS.list_grid_settings(w.dataset)
            for path in point["before"] + point["after"] + point["alone"]
        ],
    output:
        **picture(audit_part("grid"), "grid", "Audit"),
        markdown=fill(LAYOUT.audit, part="grid.md"),
        table=fill(LAYOUT.audit, part="grid.csv"),
    log:
        LAYOUT.log("audit/{dataset}/grid"),
    params:
        settings=lambda w: AUDITS.list_grid_settings(w.dataset),
        paths=list(PATHS),
        code=code("studies.audits.table_jobs.audit_grid"),
    message:
        "audit what the weights keep, by how they are trained: {wildcards.dataset}"


use rule job as attacks with:
    input:
        lambda w: plan.list_files(PLAN.list_main_runs(w.dataset)),
        metrics=LAYOUT.metrics,
    output:
        markdown=fill(LAYOUT.audit, part="attacks.md"),
        table=fill(LAYOUT.audit, part="attacks.csv"),
    log:
        LAYOUT.log("audit/{dataset}/attacks"),
    params:
        runs=lambda w: [asdict(run) for run in PLAN.list_main_runs(w.dataset)],
        rows=EXHIBITS.rows,
        code=code("studies.audits.table_jobs.attacks", lambda _: list_attack_functions("logits")),
    message:
        "attack every system of {wildcards.dataset} by its own answers"


use rule job as storage with:
    input:
        lambda w: AUDITS.list_memory_files(w.dataset),
    output:
        markdown=fill(LAYOUT.audit, part="storage.md"),
        table=fill(LAYOUT.audit, part="storage.csv"),
    log:
        LAYOUT.log("audit/{dataset}/storage"),
    params:
        systems=lambda w: AUDITS.list_memories(w.dataset),
        code=code("studies.audits.table_jobs.storage"),
    message:
        "look for traces of what was deleted in the files of {wildcards.dataset}"


use rule gpu_job as differencing_table with:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        keyfile=lambda w: PLAN.keys(w.dataset),
        neighbors=lambda w: PLAN.neighbors(w.dataset, PARAMS.seeds[0], "full"),
        originals=lambda w: [
            PLAN.original(w.dataset, PARAMS.seeds[0], name)["original"] for name in AUDITS.list_deleting_methods()
        ],
    output:
        markdown=fill(LAYOUT.audit, part="differencing.md"),
        table=fill(LAYOUT.audit, part="differencing.csv"),
    log:
        LAYOUT.log("audit/{dataset}/differencing"),
    params:
        settings=lambda w: {
            name: dump_settings({**PLAN.unlearn_settings(w.dataset, name), **PLAN.evaluate_settings(w.dataset, name)})
            for name in AUDITS.list_deleting_methods()
        },
        code=code(
            "studies.audits.table_jobs.differencing",
            lambda w: sum((PLAN.method_code(w.dataset, name) for name in AUDITS.list_deleting_methods()), []),
        ),
    message:
        "name what was deleted from {wildcards.dataset}, by two versions of each system"


use rule job as main_audited with:
    input:
        main_table=table("main", "csv"),
        differences=table("differences", "csv"),
        audit_tables=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="table.csv"),
    output:
        markdown=table("main-audited", "md"),
        html=report(table("main-audited", "html"), caption="../report/main.rst", category="Tables"),
    log:
        LAYOUT.log("main_audited"),
    params:
        rows=EXHIBITS.rows,
        code=code("studies.audits.table_jobs.main_audited"),
    message:
        "make the main table with what is left"


use rule job as audit_chapter with:
    input:
        table=fill(LAYOUT.audit, part="table.csv"),
        controls=fill(LAYOUT.audit, part="controls.json"),
        svg=fill(LAYOUT.audit, part="shares.svg"),
        strata_svg=fill(LAYOUT.audit, part="strata.svg"),
        storage=fill(LAYOUT.audit, part="storage.csv"),
        attacks=fill(LAYOUT.audit, part="attacks.csv"),
        metrics=LAYOUT.metrics,
    output:
        chapter=AUDIT_CHAPTER,
    log:
        LAYOUT.log("audit/{dataset}/chapter"),
    params:
        rows=EXHIBITS.rows,
        code=code("studies.audits.table_jobs.audit_chapter", lambda _: list_attack_functions("logits")),  # their titles
    message:
        "make the chapter on what is left of what was deleted: {wildcards.dataset}"
