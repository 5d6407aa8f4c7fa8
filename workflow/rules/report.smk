# Tables, the log in MLflow, and the report.


use rule job as tables with:
    input:
        metrics=expand(LAYOUT.metrics, dataset=PARAMS.datasets),
        dataset_differences=expand(LAYOUT.differences, dataset=PARAMS.datasets),
    output:
        **printed(table("main")),
        tidy=report(LAYOUT.all_metrics, caption="../report/metrics.rst", category="Metrics"),
        html=report(table("main", "html"), caption="../report/main.rst", category="Tables"),
        csv=table("main", "csv"),
        differences=table("differences", "csv"),
        runtime=table("runtime", "md"),
        runtime_latex=table("runtime", "tex"),
        datasets=table("datasets", "md"),
    log:
        LAYOUT.log("tables"),
    params:
        rows=EXHIBITS.rows,
        code=code("tables.tables"),
    message:
        "make the tables"


use rule job as ranks with:
    input:
        metrics=LAYOUT.all_metrics,
    output:
        **picture(fill(LAYOUT.figure, figure="ranks"), "figure", "Figures"),
        csv=table("ranks", "csv"),
        markdown=table("ranks", "md"),
    log:
        LAYOUT.log("ranks"),
    params:
        rows=EXHIBITS.rows,
        caption=get_caption("ranks"),
        code=code("tables.ranks"),
    message:
        "rank the methods"


use rule job as track with:
    input:
        LAYOUT.all_metrics,
        table("main", "csv"),
        table("main", "md"),
        table("runtime", "md"),
        plan.list_files(PLAN.main),
        # Also where the systems are there from a run without a search.
        PLAN.list_searches(PLAN.main),
        [path for dataset in PARAMS.datasets for path in PLAN.prepared(dataset).values()],
    output:
        logged=LAYOUT.tracking,
    log:
        LAYOUT.log("track"),
    params:
        name=PARAMS.name,
        uri=PARAMS.tracking.uri,
        attempt=mlflow_log.next_attempt(LAYOUT.tracking),
        runs=[asdict(run) for run in PLAN.main],
        titles=EXHIBITS.titles,
        inference={dataset: dump_settings(PLAN.query_settings(dataset)) for dataset in PARAMS.datasets},
        code=code("track.track"),
    message:
        "log every run in MLflow"


use rule job as frontier with:
    input:
        main_table=table("main", "csv"),
        differences=table("differences", "csv"),
        audit_table=fill(LAYOUT.audit, part="table.csv"),
    output:
        **picture(audit_part("frontier"), "frontier", "Audit"),
        csv=fill(LAYOUT.audit, part="frontier.csv"),
        markdown=fill(LAYOUT.audit, part="frontier.md"),
    log:
        LAYOUT.log("audit/{dataset}/frontier"),
    params:
        designs=EXHIBITS.designs,
        code=code("report.frontier"),
    message:
        "which design leaves how little, at which accuracy, in which time: {wildcards.dataset}"


use rule job as page with:
    input:
        tracking=LAYOUT.tracking,
        main_table=table("main", "csv"),
        differences=table("differences", "csv"),
        figures=lambda _: so_far(
            "figures",
            expand(LAYOUT.figure, figure=FIGURES, ending="svg"),
            always=expand(LAYOUT.figure, figure=["forgetting", "ranks"], ending="svg"),
        ),
        ranks=[table("ranks", "csv")] if EXHIBITS.ranked else [],
        audits=audits_so_far("table.csv"),
        frontiers=audits_so_far("frontier.svg"),
        records=sorted({run.record for run in PLAN.main}),
        explored=lambda _: [path for pages in EXPLORED for path in pages()],
        chapters=lambda _: [path for chapters in CHAPTERS for path in chapters()],
        template="workflow/report/page.html.j2",
        columns="src/munkey/report/page/glossary.csv",
    output:
        page=LAYOUT.report,
    log:
        LAYOUT.log("page"),
    params:
        name=PARAMS.name,
        rows=EXHIBITS.rows,
        designs=EXHIBITS.designs,
        datasets=PARAMS.datasets,
        grid=EXHIBITS.grid_summary,
        captions=lambda w, input: {name: FIGURES[name] for name in (Path(path).stem for path in input.figures)},
        config=dict(config),
        code=code("report.page"),
    message:
        "make the report"
