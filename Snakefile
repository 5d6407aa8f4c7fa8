# The experiment as one DAG, in the paper's order. Knobs: params.yaml. Rules: workflow/rules. Code: src/munkey.
report: "workflow/report/workflow.rst"


include: "workflow/rules/base.smk"
include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/keys.smk"
include: "workflow/rules/forget.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/unlearn.smk"
include: "workflow/rules/evaluate.smk"


# Each with its targets, and with what it adds to the rules below.
for study in load_studies():

    include: f"workflow/rules/{study}.smk"


include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/export.smk"


rule all:
    default_target: True
    input:
        table("main", "md"),
        table("runtime", "md"),
        table("ranks", "md") if EXHIBITS.ranked else [],
        LAYOUT.tracking,
        LAYOUT.settings,


onstart:
    outcome.notice_ctrl_c()
    if lost := lost_files(only_ahead=True):
        logger.warning(outcome.describe_lost_files(lost, again=True))
    if "figures" in targets():
        say_figures()
    if workflow.local_exec:  # on a cluster, a job must be a process of its own, where it was submitted to
        fork_server.open_run()
        gpu_slots.share(workflow.global_resources.get("gpu").value)
        # Snakemake 9.27 starts a timer for each job that ends, and each wakes the scheduler every second from then on.
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    atexit.register(say_outcome)  # below Snakemake's own last lines


onerror:
    atexit.register(say_failures)  # below Snakemake's own last lines


# Further targets: `snakemake ... -- ablations`, or `make run TARGET=ablations`.
rule exports:
    input:
        EXPORTS,
        LAYOUT.settings,


rule paper:
    input:
        rules.all.input,
        rules.figures.input,
        PAPER,
        LAYOUT.report,


# For `make report`: of all that `make paper` makes, what exists so far.
rule made:
    input:
        [path for path in rules.paper.input if Path(path).exists()] or rules.all.input,
