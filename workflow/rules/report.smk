# Tables, the summary that DVC compares, and the mirror in MLflow.


rule tables:
    input:
        metrics=expand(LAYOUT.metrics, dataset=PARAMS.datasets),
    output:
        tidy=report(LAYOUT.all_metrics, caption="../report/metrics.rst", category="Metrics"),
        html=report(table("main", "html"), caption="../report/main.rst", category="Tables"),
        csv=table("main", "csv"),
        markdown=table("main", "md"),
        latex=table("main", "tex"),
        runtime=table("runtime", "md"),
        runtime_latex=table("runtime", "tex"),
        datasets=table("datasets", "md"),
        datasets_latex=table("datasets", "tex"),
    log:
        LAYOUT.log("tables"),
    benchmark:
        LAYOUT.benchmark("tables")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        rows=EXHIBITS.rows,
        code=code("tables.py"),
    message:
        "make the tables"
    script:
        "../scripts/tables.py"


rule ranks:
    input:
        metrics=LAYOUT.all_metrics,
    output:
        csv=table("ranks", "csv"),
        markdown=table("ranks", "md"),
        svg=fill(LAYOUT.figure, figure="ranks", ending="svg"),
        png=report(
            fill(LAYOUT.figure, figure="ranks", ending="png"), caption="../report/figure.rst", category="Figures"
        ),
    log:
        LAYOUT.log("ranks"),
    benchmark:
        LAYOUT.benchmark("ranks")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        rows=EXHIBITS.rows,
        caption=caption("ranks"),
        code=code("ranks.py"),
    message:
        "rank the methods"
    script:
        "../scripts/ranks.py"


rule compare:
    input:
        main=table("main", "csv"),
        ablations=table("ablations", "csv"),
        printed="src/munkey/report/tables/paper.csv",
    output:
        csv=table("paper", "csv"),
        markdown=table("paper", "md"),
        latex=table("paper", "tex"),
    log:
        LAYOUT.log("compare"),
    benchmark:
        LAYOUT.benchmark("compare")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        settings=EXHIBITS.compared,
        seeds=len(PARAMS.seeds),
        code=code("compare.py"),
    message:
        "put the paper's numbers beside ours"
    script:
        "../scripts/compare.py"


rule summary:
    input:
        tables=table("main", "csv"),
        records=sorted({run.training for run in PLAN.main}),
    output:
        methods=directory(LAYOUT.methods),
        losses=fill(LAYOUT.summary, part="losses.svg"),
        forgetting=fill(LAYOUT.summary, part="forgetting.svg"),
    log:
        LAYOUT.log("summary"),
    benchmark:
        LAYOUT.benchmark("summary")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code=code("summary.py"),
    message:
        "summarize for DVC"
    script:
        "../scripts/summary.py"


rule track:
    input:
        LAYOUT.all_metrics,
        table("main", "csv"),
        table("main", "md"),
        table("runtime", "md"),
        plan.files_of(PLAN.main),
        list(PLAN.searches_of(PLAN.main)),
        [path for dataset in PARAMS.datasets for path in PLAN.prepared(dataset).values()],
        PLAN.exported_with if PARAMS.tracking.models else [],
        list(PLAN.models) if PARAMS.tracking.models else [],
    output:
        mirrored=LAYOUT.tracking,
    log:
        LAYOUT.log("track"),
    benchmark:
        LAYOUT.benchmark("track")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        name=PARAMS.name,
        uri=PARAMS.tracking.uri,
        attempt=mirror.next_attempt(LAYOUT.tracking),
        runs=[asdict(run) for run in PLAN.main],
        searches={path: asdict(run) for path, run in PLAN.searches_of(PLAN.main).items()},
        models={
            path: {"run": asdict(run), "sections": PLAN.export_settings(run.dataset)}
            for path, run in PLAN.models.items()
            if PARAMS.tracking.models
        },
        titles=EXHIBITS.titles,
        asked={dataset: PLAN.asked(dataset) for dataset in PARAMS.datasets},
        code=code("track.py"),
    message:
        "mirror every run in MLflow"
    script:
        "../scripts/track.py"


rule page:
    input:
        tracking=LAYOUT.tracking,
        tables=[table("main", "csv"), table("ablations", "csv")],
        paper=table("paper", "csv"),
        selections=expand(LAYOUT.selection_table, dataset=PARAMS.datasets, ending="csv"),
        figures=expand(LAYOUT.figure, figure=EXHIBITS.figures, ending="svg"),
        ranks=[table("ranks", "csv")] if EXHIBITS.ranked else [],
        audits=expand(LAYOUT.audit, dataset=AUDITS.in_paper, part="table.csv"),
        controls=expand(LAYOUT.audit, dataset=AUDITS.in_paper, part="controls.json"),
        shares=expand(LAYOUT.audit, dataset=AUDITS.in_paper, part="shares.svg"),
        costs=expand(LAYOUT.audit, dataset=AUDITS.in_paper, part="cost.svg"),
        storage=expand(LAYOUT.audit, dataset=AUDITS.in_paper, part="storage.csv"),
        records=sorted({run.record for run in PLAN.main}),
        template=f"{workflow.basedir}/workflow/report/page.html.j2",
        parts=PARTS,
    output:
        page=LAYOUT.report,
    log:
        LAYOUT.log("page"),
    benchmark:
        LAYOUT.benchmark("page")
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        name=PARAMS.name,
        rows=EXHIBITS.rows,
        ablation_rows=EXHIBITS.ablation_rows,
        settings=EXHIBITS.compared,
        seeds=len(PARAMS.seeds),
        grid=EXHIBITS.grid_in_words,
        audited=AUDITS.in_paper,
        config=dict(config),
        code=code("page.py"),
    message:
        "make the report"
    script:
        "../scripts/page.py"
