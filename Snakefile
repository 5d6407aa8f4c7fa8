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
include: "workflow/rules/ablations.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        table("main", "md"),
        table("runtime", "md"),
        layout.fill(layout.SUMMARY, part="metrics.json"),
        layout.TRACKING,


onsuccess:
    main = Path(table("main", "md"))  # missing where only an earlier file was asked for
    print(main.read_text() if main.exists() else "made what was asked for")
    print("tables    results/tables/main.{csv,md,tex}, results/tables/runtime.md")
    print("metrics   results/metrics.csv: every (data set, rate, seed, method, metric)")
    print("logits    results/logits: every model on every sample; models in results/models")
    print("MLflow    make ui")


# Further targets: `snakemake ... -- ablations`, or `make ablations`.
rule ablations:
    input:
        expand(layout.TABLE, table=shown.ABLATION_TABLES, ending=["md", "tex"]),
        table("ablations", "csv"),


rule selection:
    input:
        expand(layout.SELECTION_TABLE, dataset=PARAMS.datasets, ending="md"),


rule figures:
    input:
        expand(layout.FIGURE, figure=SHOWN.figures, ending=["svg", "png"]),


rule paper:
    input:
        rules.all.input,
        rules.ablations.input,
        rules.selection.input,
        rules.figures.input,
        expand(layout.TABLE, table="paper", ending=["md", "tex"]),
        layout.REPORT,
