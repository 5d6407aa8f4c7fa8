"""All messages at the start and the end of a run, and below the plan of a dry run."""

import os
import signal
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import fmean
from threading import Event
from types import FrameType
from typing import Any, NamedTuple

from munkey.core.console import format_duration, pluralize
from munkey.core.files import DamagedFileError, format_make_command, read_json, read_table
from munkey.core.paths import Layout, fill
from munkey.experiment.run.job import FAILED, read_seconds
from munkey.experiment.run.reasons import PlannedJob, explain_jobs
from munkey.experiment.tracking.mlflow_log import NO_SETTING
from munkey.experiment.tracking.store import hide_credentials
from munkey.report.tables.terminal import WIDTH, render_plain

STARTED = time.time()  # of this run, since Snakemake's process imports this at its start
STOPPED = Event()  # set by Ctrl-C in Snakemake's process


class FailedJob(NamedTuple):
    """A job that failed, and the path of its log."""

    message: str
    log: str


@dataclass
class Observations:
    """Facts about the run of this process that the logger plug-in observes.

    failed: by job number. has_jobs: also true in a dry run, if any jobs would run.
    """

    failed: dict[int, FailedJob] = field(default_factory=dict)
    is_dry: bool = False
    has_jobs: bool = False
    has_nothing_to_do: bool = False


SEEN = Observations()
KILLED = (
    "It ended without a reason in its log. If nobody killed it, the machine may have run out of memory"
    " or disk space."
)
SHOWN_CHANGES = 3  # of an earlier run that was replaced; the rest are only counted


def notice_ctrl_c() -> None:
    """Let Ctrl-C set STOPPED, then run the earlier handler. Call this in the main thread."""
    earlier_handler = signal.getsignal(signal.SIGINT)
    if not callable(earlier_handler):  # a run in the background may ignore Ctrl-C
        return

    def handle(number: int, frame: FrameType | None) -> None:
        STOPPED.set()
        earlier_handler(number, frame)

    signal.signal(signal.SIGINT, handle)


def find_lost_files(jobs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[str]:
    """Find the files that an earlier run wrote but that no longer exist.

    jobs: the logs and the outputs of each job.
    """
    lost_files = []
    for logs, outputs in jobs:
        missing_files = [path for path in outputs if not Path(path).exists()]
        if not missing_files or not logs:
            continue
        log = Path(logs[0])
        if log.exists() and read_seconds(log) is not None:  # the job succeeded, so they existed
            lost_files += missing_files
    return sorted(lost_files)


def describe_lost_files(files: Sequence[str], again: bool) -> str:
    """Return a message about files that an earlier run wrote but that no longer exist.

    again: whether this run will create them again.
    """
    first = files[0]
    if len(files) > 1:
        subject = f"{len(files)} files, e.g. {first}, are"
        promise = "they are created again, with everything that depends on them"
    else:
        subject = f"{first} is"
        promise = "it is created again, with everything that depends on it"
    if again:
        consequence = f"{promise}. To create only {first}, stop this run and use"
    else:
        consequence = f"no remaining job needs this. To create {first} again, use"
    return f"{subject} missing (removed since): {consequence} `{format_make_command(first)}`"


def describe_figure_jobs(
    training_jobs: int,
    jobs: Mapping[str, Sequence[str]],
    known: Mapping[str, Sequence[str]],
    at_once: int,
    ready: Sequence[str],
) -> str:
    """Return a message about a run of figures for which models must be trained.

    Parameters
    ----------
    jobs, known
        The logs of the jobs that will run, and of those that have run before, by rule.
    at_once
        How many jobs run in parallel.
    ready
        The figures whose inputs exist.
    """
    seconds = 0.0
    for rule, logs in jobs.items():
        past_seconds = []
        for log in map(Path, known.get(rule, ())):
            if log.exists():
                past_seconds.append(read_seconds(log) or 0.0)
        if past_seconds:
            seconds += len(logs) * fmean(past_seconds)
    about = ""
    if seconds:
        about = f", about {format_duration(seconds / at_once)} if they take as long as earlier ones"
    job_count = sum(map(len, jobs.values()))
    message = (
        f"These figures need {job_count} jobs{about}. {training_jobs} of them train a model,"
        " because some figures show ablations, the selection of p_image and p_token, or the course"
        " of training."
    )
    if ready:
        message += f' To draw only those whose inputs exist: `make run TARGET="{" ".join(ready)}"`.'
    return message


def write_advice(layout: Layout, designs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each data set on which design to deploy, and why.

    designs: the fields of `munkey.report.tables.frontier.Design`. Audits count if the table that
    joins them with the metrics is not older than the metrics.
    """
    # These modules import pandas, which only the end of a run needs.
    from munkey.report.tables import frontier
    from munkey.report.tables.summary import read_main

    tables = [fill(layout.table, table=name, ending="csv") for name in ("main", "differences")]
    main = read_main(*tables)
    joined = Path(fill(layout.table, table="main-audited", ending="md"))
    is_audited = False
    if joined.exists():
        is_audited = joined.stat().st_mtime >= Path(layout.all_metrics).stat().st_mtime
    all_designs = [frontier.Design(**design) for design in designs]
    audits = {}
    for dataset in map(str, main["dataset"].unique()):
        path = Path(fill(layout.audit, dataset=dataset, part="table.csv"))
        if is_audited and path.exists():
            audits[dataset] = read_table(path)
    sentences = []
    for dataset, points in frontier.collect_all_points(main, audits, all_designs).items():
        sentences.append(f"{dataset}: {frontier.recommend_design(points)}")
    return sentences


def _find_diverged_lines(tables: Iterable[str]) -> Iterator[str]:
    """Yield the lines in tables that list what diverged, without duplicates."""
    lines: dict[str, None] = {}  # serves as an ordered set
    for path in tables:
        for line in Path(path).read_text().splitlines():
            if line.startswith("Diverged: "):
                lines[line] = None
    for line in lines:
        yield f"{line}\n"


def describe_success(
    requested: Iterable[str],
    layout: Layout,
    designs: Iterable[Mapping[str, Any]],
    lost_files: Sequence[str],
) -> str:
    """Describe a run that succeeded: its summary, the runs that it replaced, and lost files."""
    lines = list(summarize_run(requested, layout, designs))
    replaced = describe_replaced_runs(layout.tracking, STARTED)
    if replaced:
        lines.append(replaced)
    if lost_files:
        lines.append(describe_lost_files(lost_files, again=False))
    return "\n".join(lines)


def describe_dry_run(jobs: Iterable[PlannedJob]) -> str:
    """Describe why the jobs of a dry run would run."""
    return "\n".join(["Why:", *explain_jobs(jobs)])


def summarize_run(
    requested: Iterable[str], layout: Layout, designs: Iterable[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """Yield the lines of a run's summary: a table, and the paths of the requested files.

    Advice on which design to deploy follows the main table. If an earlier run wrote the page, its
    path is also shown, with a remark if it is older than the metrics.
    """
    results = Path(layout.all_metrics).parent
    files = sorted(requested, key=os.path.split)  # folder by folder
    main = fill(layout.table, table="main", ending="md")
    audited = fill(layout.table, table="main-audited", ending="md")
    runtime = fill(layout.table, table="runtime", ending="md")
    tables = [path for path in files if path.endswith(".md") and Path(path).is_file()]
    table = next((path for path in (audited, main, *tables) if path in tables), "")
    if table:
        yield render_plain(Path(table).read_text())
    if table in (main, audited) and designs:
        try:
            for sentence in write_advice(layout, designs):
                yield f"{textwrap.fill(sentence, WIDTH)}\n"
        except DamagedFileError as error:  # the rest of the summary is still useful
            yield f"{error}\n"
    yield from _find_diverged_lines(path for path in tables if path != table)
    if main in files:
        yield f"tables    {results}/tables/main.{{csv,md,tex}}, {runtime}"
        yield f"metrics   {layout.all_metrics}: every (data set, rate, seed, method, metric)"
        yield f"logits    {results}/logits: every model on every sample; models in {results}/models"
        yield f"MLflow    {describe_mlflow(layout.tracking)}"
        named_files = (main, runtime, layout.tracking, layout.settings)
        files = [path for path in files if path not in named_files]
    if layout.report in files:
        yield f"page      {layout.report}: open it in a browser"
    elif main in tables and Path(layout.report).exists():
        remark = ""
        if Path(layout.report).stat().st_mtime < Path(layout.all_metrics).stat().st_mtime:
            remark = ": older than these metrics; `make run TARGET=page` updates it"
        yield f"page      {layout.report}{remark}"
    files = [path for path in files if not path.endswith(".html")]
    for folder, paths in groupby(files, key=os.path.dirname):
        names = [Path(path).name for path in paths]
        listed = ", ".join(names)
        if len(listed) >= WIDTH:
            listed = f"{len(names)} files, from {names[0]} to {names[-1]}"
        yield f"made      {folder}: {listed}"


def describe_mlflow(path: str) -> str:
    """Return where to see a run's results in MLflow, or why logging failed.

    path: the file that the tracking job wrote.
    """
    if not Path(path).exists():
        return "make ui"
    last = read_json(path)
    if last.get("failure"):
        return str(last["failure"])
    uri = hide_credentials(last.get("uri", ""))
    if uri.startswith("http"):
        return "\n          ".join([uri, *last["comparisons"].values()])
    return "make ui"


def describe_replaced_runs(path: str, since: float) -> str:
    """Describe the earlier MLflow runs whose results this run replaced; empty if there are none.

    path: the file that the tracking job wrote. since: when this run began; an older file is of an
    earlier run.
    """
    if not Path(path).exists() or Path(path).stat().st_mtime < since:
        return ""
    earlier = read_json(path).get("replaced") or {"runs": 0}
    if not earlier["runs"]:
        return ""
    changes = [change for change in earlier["changes"] if change != NO_SETTING] or [NO_SETTING]
    listed = "; ".join(changes[:SHOWN_CHANGES])
    if len(changes) > SHOWN_CHANGES:
        listed += f" and {len(changes) - SHOWN_CHANGES} more"
    message = (
        f"{pluralize(earlier['runs'], 'earlier run')} ({listed}). MLflow still has them; tables and"
        " files on disk are the current ones. To keep both on disk: set another `name`, or use"
        " `ablations` or `dvc exp run -S` (docs/running.md#change-a-knob-compare)"
    )
    return textwrap.fill(message, WIDTH, initial_indent="replaced  ", subsequent_indent=" " * 10)


def describe_failures(failed: Iterable[FailedJob], stopped: bool = False) -> str:
    """Describe why a run did not succeed, in at most 30 lines: the failed jobs, and the reasons.

    Parameters
    ----------
    stopped
        Whether the user stopped the run. If so, jobs without a reason in their logs did not fail.
    """
    advice = "run the same command again; finished work is kept."
    messages = {job.log: job.message for job in failed}
    reasons: dict[str, str] = {}
    for log in messages:
        reason = _read_reason(Path(log))
        if reason or not stopped:
            reasons[log] = reason or KILLED
    if not reasons:
        return f"The run was stopped. To continue, {advice}"
    shown_logs = list(reasons)[:3]
    max_lines = 24 // len(shown_logs) - 2  # for each job's reason, besides its message and log
    paragraphs = [f"{pluralize(len(reasons), 'job')} failed:"]
    for log in shown_logs:
        reason_lines = reasons[log].splitlines()
        lines = reason_lines[:max_lines]
        if len(reason_lines) > max_lines:
            lines.append(f"... {len(reason_lines) - max_lines} more lines in its log")
        lines.append(f"log: {log}")
        paragraphs.append(messages[log])
        paragraphs.append(textwrap.indent("\n".join(lines), "  "))
    if len(reasons) > len(shown_logs):
        paragraphs.append(f"... and {len(reasons) - len(shown_logs)} more, see above")
    paragraphs.append(f"Fix the above, then {advice}")
    return "\n".join(paragraphs)


def _read_reason(log: Path) -> str:
    """Read the reason why a job failed from its log; empty if the log gives none."""
    if not log.exists():
        return ""
    return log.read_text(errors="replace").partition(FAILED)[2].rstrip()
