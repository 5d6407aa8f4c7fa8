# The experiment as one DAG, in the paper's order. Knobs: params.yaml. Rules: workflow/rules. Code: src/munkey.
include: "workflow/rules/strict.smk"


configfile: "params.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/keys.smk"
include: "workflow/rules/forget.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/unlearn.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/audit.smk"
include: "workflow/rules/ablations.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        table("main", "md"),
        table("runtime", "md"),
        fill(LAYOUT.summary, part="metrics.json"),
        LAYOUT.tracking,


onstart:
    if workflow.local_exec:  # on a cluster, a job must be a process of its own, where it was submitted to
        fork_server.open_run()


onsuccess:
    main = Path(table("main", "md"))  # missing where only an earlier file was asked for
    print(main.read_text() if main.exists() else "made what was asked for")
    results = Path(LAYOUT.all_metrics).parent
    print(f"tables    {results}/tables/main.{{csv,md,tex}}, {results}/tables/runtime.md")
    print(f"metrics   {results}/metrics.csv: every (data set, rate, seed, method, metric)")
    print(f"logits    {results}/logits: every model on every sample; models in {results}/models")
    print(f"MLflow    {tracking.outcome(LAYOUT.tracking)}")


onerror:
    words = last_words(
        {log: job.message or job.rule.name for job in workflow.scheduler.failed for log in job.log[:1]}
    )
    atexit.register(print, f"\n{words}", file=sys.stderr, flush=True)  # below Snakemake's own last lines


# Further targets: `snakemake ... -- ablations`, or `make ablations`.
rule ablations:
    input:
        expand(LAYOUT.table, table=shown.ABLATION_TABLES, ending=["md", "tex"]),
        table("ablations", "csv"),


rule selection:
    input:
        expand(LAYOUT.selection_table, dataset=PARAMS.datasets, ending="md"),


rule figures:
    input:
        expand(LAYOUT.figure, figure=SHOWN.figures, ending=["svg", "png"]),


rule audits:
    input:
        expand(LAYOUT.audit, dataset=PARAMS.datasets, part=["table.md", "attacks.md"]),
        LAYOUT.audit_page,


rule paper:
    input:
        rules.all.input,
        rules.ablations.input,
        rules.selection.input,
        rules.figures.input,
        expand(LAYOUT.table, table="paper", ending=["md", "tex"]),
        LAYOUT.report,
