# How much is left of what was deleted: pairs of models that swap halves of a pool (docs/audits.md): `make audit`.


rule half:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
    output:
        half=LAYOUT.half,
    log:
        LAYOUT.log("audit/{dataset}/halves/seed{seed}"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/halves/seed{seed}")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        pool=PARAMS.audit.pool,
        code=code("half.py"),
    message:
        "draw the half of the audit's pool that seed {wildcards.seed} forgets: {wildcards.dataset}"
    script:
        "../scripts/half.py"


rule audit:
    input:
        halves=lambda w: AUDITS.halves_of(w.dataset),
        logits=lambda w: [path for system in AUDITS.systems_of(w.dataset) for path in system["logits"]],
    output:
        table=fill(LAYOUT.audit, part="table.csv"),
        controls=fill(LAYOUT.audit, part="controls.json"),
    log:
        LAYOUT.log("audit/{dataset}/audit"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/audit")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        systems=lambda w: AUDITS.systems_of(w.dataset),
        code=code("audit.py"),
    message:
        "audit what is left of what was deleted: {wildcards.dataset}"
    script:
        "../scripts/audit.py"


rule audit_shown:
    input:
        table=fill(LAYOUT.audit, part="table.csv"),
    output:
        markdown=fill(LAYOUT.audit, part="table.md"),
        latex=fill(LAYOUT.audit, part="table.tex"),
        svg=fill(LAYOUT.audit, part="shares.svg"),
        png=report(fill(LAYOUT.audit, part="shares.png"), caption="../report/figure.rst", category="Audit"),
    log:
        LAYOUT.log("audit/{dataset}/shown"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/shown")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code=code("audit_shown.py"),
    message:
        "show the audit of {wildcards.dataset}"
    script:
        "../scripts/audit_shown.py"


rule attacks:
    input:
        lambda w: plan.files_of(PLAN.main_of(w.dataset)),
        metrics=LAYOUT.metrics,
    output:
        table=fill(LAYOUT.audit, part="attacks.csv"),
        markdown=fill(LAYOUT.audit, part="attacks.md"),
        latex=fill(LAYOUT.audit, part="attacks.tex"),
    log:
        LAYOUT.log("audit/{dataset}/attacks"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/attacks")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        runs=lambda w: [asdict(run) for run in PLAN.main_of(w.dataset)],
        rows=SHOWN.rows,
        code=code("attacks.py"),
    message:
        "attack every system of {wildcards.dataset} by its own answers"
    script:
        "../scripts/attacks.py"


rule audit_page:
    input:
        tables=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="table.csv"),
        controls=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="controls.json"),
        figures=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="shares.png"),
        attacks=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="attacks.csv"),
        metrics=expand(LAYOUT.metrics, dataset=PARAMS.datasets),
        template=f"{workflow.basedir}/workflow/report/audit.html.j2",
    output:
        page=LAYOUT.audit_page,
    log:
        LAYOUT.log("audit/page"),
    benchmark:
        LAYOUT.benchmark("audit/page")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        name=PARAMS.name,
        datasets=PARAMS.datasets,
        rows=SHOWN.rows,
        code=code("audit_page.py"),
    message:
        "show the audits on one page"
    script:
        "../scripts/audit_page.py"
