# What the rules share: functions and wildcards; and what a run says.
import atexit
import os
from dataclasses import asdict
from pathlib import Path

from snakemake.logging import logger

from munkey.core import gpu_seats
from munkey.experiment.run import code_digest, fork_server, outcome, reasons
from munkey.experiment.tracking import mlflow_log
from munkey.experiment.run.job import last_words
from munkey.core.paths import fill
from munkey.experiment.params.load import memory_family
from munkey.report.figures.charts import caption
from munkey.unlearn.contract import METHODS


def code(function, roots=lambda _: []):
    """For `params`: the function of munkey.jobs that a job runs, and a digest of all code that it imports.

    roots: what it finds through a registry, by the wildcards.
    """
    job = f"munkey.jobs.{function.partition('.')[0]}"
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
    scope=r"(depth\d+/)?(full|(scenario/[\w.-]+/)?seed\d+/rate[\d.e-]+|audit/seed\d+/(full|rate[\d.e-]+))",
    run="original|retrain",
    letter=plan.one_of(family.letter for family in PLAN.families),
    candidate=r"\d+",
    method=plan.one_of(METHODS),


def lost(jobs):
    """Results of these jobs that an earlier run made and that are not there any more."""
    known = (path for job in jobs if workflow.persistence.has_metadata(job) for path in job.output)
    return sorted(path for path in known if not os.path.exists(path))


def say_outcome():
    rules = [job for job in workflow.dag.targetjobs if job.rule in workflow.dag.targetrules]
    asked = workflow.dag.targetfiles.union(path for job in rules for path in job.output or job.input)
    said = outcome.outcome(asked, LAYOUT, mlflow_log.outcome(LAYOUT.tracking))
    gone = lost(workflow.dag.jobs)
    print("", *said, *([outcome.lost(gone, again=False)] if gone else []), sep="\n", flush=True)


@atexit.register
def say_outcome_of_nothing():  # Snakemake calls no hook where there is nothing to do
    if workflow.scheduler and not workflow.dryrun and not len(workflow.dag):
        say_outcome()


def say_figures():
    """Before figures that train models: how many, for how long, and which figures need none."""
    ahead, past, remade = {}, {}, set()
    for job in workflow.dag.jobs:
        logs = ahead if workflow.dag.needrun(job) else past
        logs.setdefault(job.rule.name, []).extend(job.log[:1])
        remade.update(job.output if workflow.dag.needrun(job) else [])
    trainings = sum(len(ahead.get(name, [])) for name in ("train", "trace"))
    ready = []
    for chart in EXHIBITS.charts:
        files = set()
        for given in EXHIBITS.chart_input(chart).values():
            files.update([given] if isinstance(given, str) else given)
        if all(map(os.path.exists, files)) and not files & remade:
            ready.append(fill(LAYOUT.figure, figure=chart, ending="svg"))
    if trainings:
        at_once = max(1, workflow.cores // PARAMS.threads)
        logger.warning(outcome.figures_ahead(trainings, ahead, past, at_once, ready))


def planned_job(job):
    """What Snakemake knows of why a job is to run, for words."""
    reason = workflow.dag.reason(job)
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
        made=min(made, default=0),
    )


@atexit.register
def say_reasons():  # below the plan of a dry run
    if workflow.scheduler and workflow.dryrun and len(workflow.dag):
        planned = [job for job in workflow.dag.jobs if workflow.dag.needrun(job) and job.output]
        print("", "Why:", *reasons.lines(map(planned_job, planned)), sep="\n", flush=True)


# The page shows the main run, what the same command asks for, and of the rest what exists: `make run TARGET=page` trains
# nothing for the rest, unless a table that exists is older than what it is made from; then it is made again.
def so_far(target, paths, always=(), in_paper=True):
    asked = {*(["paper"] if in_paper else []), target} & set(workflow.dag_settings.targets)
    return [path for path in paths if asked or path in always or Path(path).exists()]


def audited(_):
    if "paper" in workflow.dag_settings.targets:
        return AUDITS.in_paper
    return [name for name in PARAMS.datasets if so_far("audits", expand(LAYOUT.audit, dataset=name, part="table.csv"))]


def audits_so_far(part):
    return lambda w: expand(LAYOUT.audit, dataset=audited(w), part=part)
