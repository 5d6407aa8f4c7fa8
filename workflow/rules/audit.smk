# How much is left of what was deleted, by pairs of models that swap halves of a pool (docs/audits.md): `make audits`.


rule half:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
    output:
        half=LAYOUT.half,
    log:
        LAYOUT.log("audit/{dataset}/halves/seed{seed}"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/halves/seed{seed}")
    priority: 1  # before any training: a pool that is too small or too large is noticed at once
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        pool=PARAMS.audit.pool,
        depth=lambda w: PARAMS.for_case(w.dataset).keys.depth,
        code=code("half.py"),
    message:
        "draw the half of the audit's pool that seed {wildcards.seed} forgets: {wildcards.dataset}"
    script:
        "../scripts/half.py"


rule hardest_half:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        neighbors=lambda w: PLAN.neighbors(w.dataset, w.seed, "full"),
    output:
        half=LAYOUT.hardest_half,
    log:
        LAYOUT.log("audit/{dataset}/hardest/seed{seed}"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/hardest/seed{seed}")
    priority: 1
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        pool=PARAMS.audit.pool,
        voters=lambda w: PARAMS.for_case(w.dataset).keys.depth - 1,
        code=code("hardest_half.py"),
    message:
        "draw the half of the hardest samples that seed {wildcards.seed} forgets: {wildcards.dataset}"
    script:
        "../scripts/hardest_half.py"


rule mislabel:
    input:
        unpack(lambda w: PLAN.prepared(w.dataset)),
        pool=lambda w: AUDITS.halves_of(w.dataset)[:2],
    output:
        images=fill(LAYOUT.mislabeled, part="images.npy"),
        samples=fill(LAYOUT.mislabeled, part="samples.csv"),
        classes=fill(LAYOUT.mislabeled, part="classes.json"),
    log:
        LAYOUT.log("audit/{dataset}/mislabel"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/mislabel")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code=code("mislabel.py"),
    message:
        "give the audit's pool wrong labels: {wildcards.dataset}"
    script:
        "../scripts/mislabel.py"


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
        code=code("audit.py", *audits.attacks("pairs")),
    message:
        "audit what is left of what was deleted: {wildcards.dataset}"
    script:
        "../scripts/audit.py"


rule audit_grid:
    input:
        halves=lambda w: AUDITS.grid_halves_of(w.dataset),
        logits=lambda w: [path for point in AUDITS.grid_of(w.dataset) for path in point["before"] + point["after"]],
    output:
        table=fill(LAYOUT.audit, part="grid.csv"),
    log:
        LAYOUT.log("audit/{dataset}/grid"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/grid")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        settings=lambda w: AUDITS.grid_of(w.dataset),
        paths=list(audits.PATHS),
        code=code("audit_grid.py"),
    message:
        "audit what the weights keep, by how they are trained: {wildcards.dataset}"
    script:
        "../scripts/audit_grid.py"


rule audit_shown:
    input:
        table=fill(LAYOUT.audit, part="table.csv"),
    output:
        markdown=fill(LAYOUT.audit, part="table.md"),
        latex=fill(LAYOUT.audit, part="table.tex"),
        svg=fill(LAYOUT.audit, part="shares.svg"),
        png=report(fill(LAYOUT.audit, part="shares.png"), caption="../report/shares.rst", category="Audit"),
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


rule audit_cost:
    input:
        main=table("main", "csv"),
        audit=fill(LAYOUT.audit, part="table.csv"),
    output:
        svg=fill(LAYOUT.audit, part="cost.svg"),
        png=report(fill(LAYOUT.audit, part="cost.png"), caption="../report/cost.rst", category="Audit"),
    log:
        LAYOUT.log("audit/{dataset}/cost"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/cost")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code=code("audit_cost.py"),
    message:
        "draw forgetting against its cost: {wildcards.dataset}"
    script:
        "../scripts/audit_cost.py"


rule audit_grid_shown:
    input:
        table=fill(LAYOUT.audit, part="grid.csv"),
    output:
        markdown=fill(LAYOUT.audit, part="grid.md"),
        latex=fill(LAYOUT.audit, part="grid.tex"),
        svg=fill(LAYOUT.audit, part="grid.svg"),
        png=report(fill(LAYOUT.audit, part="grid.png"), caption="../report/grid.rst", category="Audit"),
    log:
        LAYOUT.log("audit/{dataset}/grid_shown"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/grid_shown")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code=code("audit_grid_shown.py"),
    message:
        "show what the weights keep: {wildcards.dataset}"
    script:
        "../scripts/audit_grid_shown.py"


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
        rows=EXHIBITS.rows,
        code=code("attacks.py", *audits.attacks("logits")),
    message:
        "attack every system of {wildcards.dataset} by its own answers"
    script:
        "../scripts/attacks.py"


rule storage:
    input:
        lambda w: AUDITS.files_of_memories(w.dataset),
    output:
        table=fill(LAYOUT.audit, part="storage.csv"),
        markdown=fill(LAYOUT.audit, part="storage.md"),
        latex=fill(LAYOUT.audit, part="storage.tex"),
    log:
        LAYOUT.log("audit/{dataset}/storage"),
    benchmark:
        LAYOUT.benchmark("audit/{dataset}/storage")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        systems=lambda w: AUDITS.memories_of(w.dataset),
        code=code("storage.py"),
    message:
        "look for traces of what was deleted in the files of {wildcards.dataset}"
    script:
        "../scripts/storage.py"


rule main_audited:
    input:
        main=table("main", "csv"),
        audits=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="table.csv"),
    output:
        html=report(table("main-audited", "html"), caption="../report/main.rst", category="Tables"),
        markdown=table("main-audited", "md"),
        latex=table("main-audited", "tex"),
    log:
        LAYOUT.log("main_audited"),
    benchmark:
        LAYOUT.benchmark("main_audited")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        datasets=PARAMS.datasets,
        rows=EXHIBITS.rows,
        code=code("main_audited.py"),
    message:
        "make the main table with what is left"
    script:
        "../scripts/main_audited.py"


rule audit_page:
    input:
        tables=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="table.csv"),
        controls=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="controls.json"),
        figures=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="shares.svg"),
        storage=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="storage.csv"),
        attacks=expand(LAYOUT.audit, dataset=PARAMS.datasets, part="attacks.csv"),
        metrics=expand(LAYOUT.metrics, dataset=PARAMS.datasets),
        template=f"{workflow.basedir}/workflow/report/audit.html.j2",
        parts=PARTS,
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
        rows=EXHIBITS.rows,
        code=code("audit_page.py"),
    message:
        "show the audits on one page"
    script:
        "../scripts/audit_page.py"
