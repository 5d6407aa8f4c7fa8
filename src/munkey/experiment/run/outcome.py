"""The last words of a run: the files that it was asked for, or that the user stopped it."""

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

from munkey.core.console import format_duration
from munkey.core.files import DamagedFileError, command_to_make, read_table
from munkey.core.paths import Layout, fill
from munkey.experiment.run.job import read_seconds
from munkey.report.tables.terminal import WIDTH, render_plain

STARTED = time.time()  # of this run: Snakemake's process imports this as it begins
STOPPED = Event()  # set by Ctrl-C, in Snakemake's process


class FailedJob(NamedTuple):
    """A job that failed.

    Attributes
    ----------
    log
        The path of its log.
    """

    message: str
    log: str


@dataclass
class Observations:
    """The observations of the logger plug-in on the run of this process.

    Attributes
    ----------
    failed
        The failed jobs by their numbers.
    has_jobs
        Whether any jobs are to run, in a dry run too.
    has_nothing_to_do
        Whether a run that is not dry found all results up to date.
    """

    failed: dict[int, FailedJob] = field(default_factory=dict)
    is_dry: bool = False
    has_jobs: bool = False
    has_nothing_to_do: bool = False


SEEN = Observations()


def notice_ctrl_c() -> None:
    """Let Ctrl-C set STOPPED before its earlier handler runs. Call this in the main thread."""
    earlier_handler = signal.getsignal(signal.SIGINT)
    if not callable(earlier_handler):  # a run in the background may ignore Ctrl-C
        return

    def handle(number: int, frame: FrameType | None) -> None:
        STOPPED.set()
        earlier_handler(number, frame)

    signal.signal(signal.SIGINT, handle)


def lost_files(jobs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[str]:
    """Return the files that an earlier run made and that are gone.

    Parameters
    ----------
    jobs
        The logs and the outputs of each job.
    """
    lost_files = []
    for logs, outputs in jobs:
        missing_files = [path for path in outputs if not Path(path).exists()]
        if not missing_files or not logs:
            continue
        log = Path(logs[0])
        if log.exists() and read_seconds(log) is not None:  # the job succeeded, so it made them
            lost_files += missing_files
    return sorted(lost_files)


def lost_files_message(files: Sequence[str], again: bool) -> str:
    """Return a message on files that an earlier run made and that are gone.

    Parameters
    ----------
    again
        Whether this run makes them again.
    """
    subject = f"{files[0]} is"
    if len(files) > 1:
        subject = f"{len(files)} files, e.g. {files[0]}, are"
    consequence = "no remaining job reads it. To have it again, use"
    if again:
        consequence = (
            "it is made again, with all that depends on it. To make it alone, stop this run and use"
        )
    return f"{subject} missing (removed since): {consequence} `{command_to_make(files[0])}`"


def figures_ahead(
    trainings: int,
    jobs: Mapping[str, Sequence[str]],
    known: Mapping[str, Sequence[str]],
    at_once: int,
    ready: Sequence[str],
) -> str:
    """Return the message before figures for which models must be trained.

    Parameters
    ----------
    jobs
        The logs of jobs that are to run, by rule.
    known
        The logs of jobs that have run, by rule.
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
        about = f", about {format_duration(seconds / at_once)} as such jobs went here before"
    words = (
        f"These figures need {sum(map(len, jobs.values()))} jobs, {trainings} of which train a model{about}: some show"
        " ablations, the selection of p_image and p_token, or the course of a training."
    )
    if ready:
        words += f' Those whose inputs exist: `make run TARGET="{" ".join(ready)}"`.'
    return words


def advice(layout: Layout, designs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each data set on which design to deploy, and why.

    An audit that is older than the metrics does not count.

    Parameters
    ----------
    designs
        The fields of `munkey.report.tables.frontier.Design`.
    """
    from munkey.report.tables import frontier  # pandas, at the end of a run alone
    from munkey.report.tables.summary import read_main

    main = read_main(fill(layout.table, table="main", ending="csv"))
    metrics_time = Path(layout.all_metrics).stat().st_mtime
    all_designs = [frontier.Design(**design) for design in designs]
    sentences = []
    for dataset, part in main.groupby("dataset", sort=False):
        path = Path(fill(layout.audit, dataset=str(dataset), part="table.csv"))
        audit = None
        if path.exists() and path.stat().st_mtime >= metrics_time:
            audit = read_table(path)
        points = frontier.points(part, audit, all_designs)
        sentences.append(f"{dataset}: {frontier.advice(points)}")
    return sentences


def _find_diverged_lines(tables: Iterable[str]) -> Iterator[str]:
    """Yield the lines of tables that name what diverged, each once."""
    lines: dict[str, None] = {}  # an ordered set
    for path in tables:
        for line in Path(path).read_text().splitlines():
            if line.startswith("Diverged: "):
                lines[line] = None
    for line in lines:
        yield f"{line}\n"


def outcome(
    asked: Iterable[str], layout: Layout, mlflow: str, designs: Iterable[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """Yield lines at the end of a run: a table, and the places of the files that were asked for.

    After the main table comes the advice which design to deploy, and a page that an earlier run
    made, marked if it is older than the metrics.

    Parameters
    ----------
    mlflow
        The place where the runs can be seen.
    designs
        The designs, as for `advice`.
    """
    results = Path(layout.all_metrics).parent
    files = sorted(asked, key=os.path.split)  # folder by folder
    main = fill(layout.table, table="main", ending="md")
    audited = fill(layout.table, table="main-audited", ending="md")
    runtime = fill(layout.table, table="runtime", ending="md")
    tables = [path for path in files if path.endswith(".md") and Path(path).is_file()]
    table = next(iter(tables), "")
    if audited in tables:
        table = audited
    elif main in tables:
        table = main
    if table:
        yield render_plain(Path(table).read_text())
    if table in (main, audited) and designs:
        try:
            for sentence in advice(layout, designs):
                yield f"{textwrap.fill(sentence, WIDTH)}\n"
        except DamagedFileError as error:  # the results can be seen all the same
            yield f"{error}\n"
    yield from _find_diverged_lines(path for path in tables if path != table)
    if main in files:
        yield f"tables    {results}/tables/main.{{csv,md,tex}}, {runtime}"
        yield f"metrics   {layout.all_metrics}: every (data set, rate, seed, method, metric)"
        yield f"logits    {results}/logits: every model on every sample; models in {results}/models"
        yield f"MLflow    {mlflow}"
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
