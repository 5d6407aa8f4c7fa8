# What the rules share: functions and wildcards; and what a run says.
import atexit
import os
from dataclasses import asdict
from pathlib import Path

from snakemake.logging import logger

from munkey.core import gpu_slots
from munkey.experiment import outcome
from munkey.experiment.run import code_digest, fork_server, reasons
from munkey.experiment.run.dispatch import name_job_module
from munkey.experiment.tracking import mlflow_log
from munkey.core.paths import fill
from munkey.experiment.params.load import memory_family
from munkey.report.figures.charts import get_caption
from munkey.unlearn.contract import METHODS


def code(function, roots=lambda _: []):
    """For `params`: the function that a job runs, and a digest of all code that it imports.

    function: MODULE.FUNCTION of munkey.jobs, or studies.NAME.MODULE.FUNCTION.

    roots: what it finds through a registry, by the wildcards.
    """
    job = name_job_module(function)
    return lambda wildcards: f"{function} {code_digest.digest(job, *roots(wildcards))}"


def table(name, ending="{ending}"):
    return fill(LAYOUT.table, table=name, ending=ending)


def printed(path):
    """A table that a paper prints, in both forms. All others are Markdown alone."""
    return {"markdown": fill(path, ending="md"), "latex": fill(path, ending="tex")}


def picture(path, caption, category):
    png = report(fill(path, ending="png"), caption=f"../report/{caption}.rst", category=category)
    return {"svg": fill(path, ending="svg"), "png": png}


def audit_part(name):
    return fill(LAYOUT.audit, part=f"{name}.{{ending}}")


# Studies add to these.
AUDITED = []  # functions that list the data sets with a table of residual shares
CHAPTERS = []  # functions that list the files of chapters that the page shows
FIGURES = {name: get_caption(name) for name in EXHIBITS.figures}  # captions, by name
PAPER = []  # what `make paper` makes of them
EXPLORED = []  # functions that list the pages of single samples that the page links
EXPORTS = expand(
    [LAYOUT.exported, fill(LAYOUT.export, part="manifest.json")], dataset=PARAMS.datasets, seed=PARAMS.seeds
)


wildcard_constraints:
    dataset=r"[\w-]+",
    case=r"[\w-]+(/[\w.]+/[\w.-]+)?",
    encoder=r"[\w.-]+",
    seed=r"\d+",
    rate=r"[\d.e-]+",
    subset=r"full|rate[\d.e-]+",
    scope=r"(depth\d+/)?(full|([\w.-]+/){0,2}seed\d+/(full|rate[\d.e-]+))",
    run="original|retrain",
    letter=plan.wildcard_pattern(family.letter for family in PLAN.families),
    candidate=r"\d+",
    method=plan.wildcard_pattern(METHODS),


# Of `workflow`, Snakemake's documentation names `cores` and `source_path`. Its other attributes may change with any
# version: tests/test_house.py counts those that are used.
def targets():
    """The rules and files that the command line asks for."""
    return list(workflow.dag_settings.targets or ["all"])


def planned_jobs():
    """All jobs that the targets depend on, each with Snakemake's reason to run it, which is false where it does not."""
    return [(job, workflow.dag.reason(job)) for job in workflow.dag.jobs]


def lost_files(only_ahead):
    """Results that an earlier run made and that are missing now; of the jobs that are to run only, or of all."""
    return outcome.find_lost_files((job.log, job.output) for job, reason in planned_jobs() if reason or not only_ahead)


def say_outcome():
    asked = set()
    for target in targets():
        try:
            target_rule = getattr(rules, target)
        except WorkflowError:  # a file, whose name no rule has
            asked.add(target)
        else:
            asked.update(target_rule.output or target_rule.input)
    words = outcome.describe_success(asked, LAYOUT, EXHIBITS.designs, lost_files(only_ahead=False))
    print(f"\n{words}", flush=True)


@atexit.register
def say_outcome_of_nothing():  # Snakemake calls no hook where there is nothing to do
    if outcome.SEEN.has_nothing_to_do:
        say_outcome()


def say_failures():
    words = outcome.describe_failures(outcome.SEEN.failed.values(), outcome.STOPPED.is_set())
    print(f"\n{words}", file=sys.stderr, flush=True)


def say_figures():
    """Before figures that train models: how many, for how long, and which figures need none."""
    ahead, past, remade = {}, {}, set()
    for job, reason in planned_jobs():
        logs = ahead if reason else past
        logs.setdefault(job.rule.name, []).extend(job.log[:1])
        remade.update(job.output if reason else [])
    trainings = sum(len(ahead.get(name, [])) for name in ("train", "trace"))
    ready = []
    figures = {*expand(LAYOUT.figure, figure=FIGURES, ending="svg")}
    for job, _ in planned_jobs():
        if all(map(os.path.exists, job.input)) and not remade & {*job.input}:
            ready.extend(figures & {*job.output})
    if trainings:
        at_once = max(1, workflow.cores // PARAMS.threads)
        logger.warning(outcome.describe_figure_jobs(trainings, ahead, past, at_once, sorted(ready)))


def planned_job(job, reason):
    """What Snakemake knows of why a job is to run, for words."""
    made = [os.path.getmtime(path) for path in job.output if os.path.exists(path)]
    other = {"forced": reason.forced, "other input files than before": reason.input_changed}
    other["another environment"] = reason.software_stack_changed
    other["results are missing"] = bool(made) and bool(reason.missing_output)
    return reasons.PlannedJob(
        job.rule.name,
        job.message or job.rule.name,
        method=job.wildcards.get("method", ""),
        changed={name: value for name, value in job.params.items() if repr(value) in reason.params_changed.only_new},
        before=sorted(reason.params_changed.only_old),
        files=sorted(reason.updated_input - reason.updated_input_run),
        other=[words for words, holds in other.items() if holds],
        made_at=min(made, default=0),
    )


@atexit.register
def say_reasons():  # below the plan of a dry run
    if outcome.SEEN.is_dry and outcome.SEEN.has_jobs:
        # In a dry run, jobs count as finished at the end, and the reason of a finished job is false.
        ahead = [(job, reason) for job, reason in planned_jobs() if job.output and (reason or reason.finished)]
        words = outcome.describe_dry_run(planned_job(job, reason) for job, reason in ahead)
        print(f"\n{words}", flush=True)


# The page shows the main run, what the same command asks for, and of the rest what exists: `make run TARGET=page` trains
# nothing for the rest, unless a table that exists is older than what it is made from; then it is made again.
def so_far(target, paths, always=(), in_paper=True):
    asked = {*(["paper"] if in_paper else []), target} & {*targets()}
    return [path for path in paths if asked or path in always or Path(path).exists()]


def audited(_):
    return [dataset for list_datasets in AUDITED for dataset in list_datasets()]


def audits_so_far(part):
    return lambda w: expand(LAYOUT.audit, dataset=audited(w), part=part)
