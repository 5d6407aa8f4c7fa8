"""What a run says at its end: what it was asked for, and whether the user stopped it."""

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
from typing import Any, NamedTuple

from munkey.core.console import duration
from munkey.core.files import DamagedFileError, command_to_make, read_table
from munkey.core.paths import Layout, fill
from munkey.experiment.run.job import seconds_of
from munkey.report.tables.terminal import WIDTH, plain

TABLES = "main", "main-audited", "runtime"
STARTED = time.time()  # of this run: Snakemake's process imports this as it begins
STOPPED = Event()  # set by Ctrl-C, in Snakemake's process


class FailedJob(NamedTuple):
    """A job that failed. log: its path."""

    message: str
    log: str


@dataclass
class Seen:
    """What the logger plug-in saw of the run of this process.

    failed: jobs by their numbers; has_jobs: whether any are to run, in a dry run too; has_nothing_to_do: whether a run
    that is not dry found everything made.
    """

    failed: dict[int, FailedJob] = field(default_factory=dict)
    is_dry: bool = False
    has_jobs: bool = False
    has_nothing_to_do: bool = False


SEEN = Seen()


def notice_ctrl_c() -> None:
    """From now on, Ctrl-C sets STOPPED before it does what it did so far. To be called in the main thread."""
    before = signal.getsignal(signal.SIGINT)
    if callable(before):  # a run in the background may ignore it
        signal.signal(signal.SIGINT, lambda *call: STOPPED.set() or before(*call))  # type: ignore[func-returns-value]


def lost(jobs: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[str]:
    """The files that an earlier run made and that are gone. jobs: the logs and the outputs of each.

    The log of a job says whether it succeeded.
    """
    lost_files = []
    for logs, outputs in jobs:
        missing = [path for path in outputs if not Path(path).exists()]
        log = Path(logs[0]) if logs else None
        if missing and log and log.exists() and seconds_of(log) is not None:
            lost_files += missing
    return sorted(lost_files)


def loss(files: Sequence[str], again: bool) -> str:
    """What to say of files that an earlier run made and that are gone. again: whether this run makes them."""
    what = f"{files[0]} is" if len(files) == 1 else f"{len(files)} files, e.g. {files[0]}, are"
    made = (
        "made again, and so is all that was made from it. To make it alone, stop this run and use"
    )
    then = made if again else "nothing that is left to make reads it. To have it again, use"
    return f"{what} not there any more (removed since): {then} `{command_to_make(files[0])}`"


def figures_ahead(
    trainings: int,
    jobs: Mapping[str, Sequence[str]],
    known: Mapping[str, Sequence[str]],
    at_once: int,
    ready: Sequence[str],
) -> str:
    """What to say before figures are made for which models must be trained.

    jobs, known: by rule, the logs of jobs that are to run, and of jobs that have run; at_once: how many run in
    parallel; ready: the figures that need nothing but what is there.
    """
    seconds = 0.0
    for rule, logs in jobs.items():
        past = [seconds_of(Path(log)) or 0.0 for log in known.get(rule, ()) if Path(log).exists()]
        seconds += len(logs) * fmean(past or [0.0])
    about = (
        f", about {duration(seconds / at_once)} by what such jobs took here before"
        if seconds
        else ""
    )
    words = (
        f"These figures need {sum(map(len, jobs.values()))} jobs, {trainings} of which train a model{about}: some show"
        " ablations, the selection of p_image and p_token, or a training that is watched."
    )
    if ready:
        words += f' Those of what is there already: `make run TARGET="{" ".join(ready)}"`.'
    return words


def advice(layout: Layout, designs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which design to deploy on each data set, and why. An audit that is older than the metrics does not count.

    designs: the fields of `munkey.report.tables.frontier.Design`.
    """
    from munkey.report.tables import frontier  # pandas, at the end of a run alone

    main = read_table(fill(layout.table, table="main", ending="csv"))
    measured = Path(layout.all_metrics).stat().st_mtime
    every = [frontier.Design(**design) for design in designs]
    sentences = []
    for dataset, part in main.groupby("dataset", sort=False):
        path = Path(fill(layout.audit, dataset=str(dataset), part="table.csv"))
        audit = read_table(path) if path.exists() and path.stat().st_mtime >= measured else None
        sentences.append(f"{dataset}: {frontier.advice(frontier.points(part, audit, every))}")
    return sentences


def outcome(
    asked: Iterable[str], layout: Layout, mlflow: str, designs: Iterable[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """Lines: a table and where everything lies, of the files that were asked for alone.

    Where these are the main run's, a page that an earlier run made is named too, marked where it is older than its
    metrics, and the table is followed by what to deploy. mlflow: where the runs can be seen; designs: as for `advice`.
    """
    # folder by folder
    results, left = Path(layout.all_metrics).parent, sorted(asked, key=os.path.split)
    main, audited, runtime = (fill(layout.table, table=name, ending="md") for name in TABLES)
    tables = [path for path in left if path.endswith(".md") and Path(path).is_file()]
    if table := next((path for path in (audited, main, *tables) if path in tables), None):
        yield plain(Path(table).read_text())
    if table in (main, audited) and designs:
        try:
            yield from (f"{textwrap.fill(said, WIDTH)}\n" for said in advice(layout, designs))
        except DamagedFileError as error:  # what it is of can be seen all the same
            yield f"{error}\n"
    others = [path for path in tables if path != table]
    said = dict.fromkeys(line for path in others for line in Path(path).read_text().splitlines())
    yield from (f"{line}\n" for line in said if line.startswith("Diverged: "))
    if main in left:
        yield f"tables    {results}/tables/main.{{csv,md,tex}}, {runtime}"
        yield f"metrics   {layout.all_metrics}: every (data set, rate, seed, method, metric)"
        yield f"logits    {results}/logits: every model on every sample; models in {results}/models"
        yield f"MLflow    {mlflow}"
        left = [
            path for path in left if path not in (main, runtime, layout.tracking, layout.settings)
        ]
    if layout.report in left:
        yield f"page      {layout.report}: open it in a browser"
    elif main in tables and Path(layout.report).exists():
        older = Path(layout.report).stat().st_mtime < Path(layout.all_metrics).stat().st_mtime
        remark = ": older than these metrics; `make run TARGET=page` makes it anew" if older else ""
        yield f"page      {layout.report}{remark}"
    for folder, paths in groupby(
        (path for path in left if not path.endswith(".html")), key=os.path.dirname
    ):
        names = [Path(path).name for path in paths]
        listed, more = ", ".join(names), f"{len(names)} files, from {names[0]} to {names[-1]}"
        yield f"made      {folder}: {listed if len(listed) < WIDTH else more}"
