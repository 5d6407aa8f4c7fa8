"""The workflow as the commands of this package use it: its jobs, and runs of it in a folder.

Snakemake runs as a command. What it knows of a job that ran is in `.snakemake/metadata`, a JSON file
for each result.
"""

import base64
import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

SNAKEFILE = Path("Snakefile")
RULES = Path("workflow/rules")
METADATA = Path(".snakemake/metadata")
MAX_NAME = 255  # Snakemake splits longer names of its records into folders that start with @
CODE = re.compile(r"'([\w.]+) ([0-9a-f]{16})'")  # the param that names a job's function
HEADER = "output_file\t"  # how Snakemake's summary starts


class WorkflowFailedError(ValueError):
    """Snakemake failed. The message has the end of what it printed."""


@dataclass(frozen=True)
class RecordedJob:
    """A job that ran.

    Attributes
    ----------
    function, code
        The function that it called, and the digest of the code that this function imports.
    inputs, outputs
        Paths from the project's folder.
    started, ended
        Seconds since 1970.
    """

    rule: str
    function: str
    code: str
    log: str
    started: float
    ended: float
    inputs: tuple[str, ...]
    outputs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class JobFiles:
    """A job of this checkout: its rule, what it reads, and what it makes."""

    rule: str
    inputs: list[str]
    outputs: list[str]


def require_clone(advice: str = "run this command in a clone") -> None:
    """Check that the current folder has the workflow, and that Snakemake is installed.

    Raises FileNotFoundError, whose message ends in the advice, or ModuleNotFoundError.
    """
    # A published run has a Snakefile, too, but no rules.
    if not (SNAKEFILE.exists() and RULES.is_dir()):
        raise FileNotFoundError(f"{Path.cwd()}: is not a clone of munkey; {advice}")
    if find_spec("snakemake") is None:
        raise ModuleNotFoundError("No module named 'snakemake'", name="snakemake")


def run_snakemake(arguments: Sequence[str], folder: Path, show: bool = False) -> str:
    """Run the workflow of this project's folder in another folder, and return the standard output.

    Parameters
    ----------
    show
        Whether to show what Snakemake prints as it runs.

    Raises
    ------
    WorkflowFailedError
        If Snakemake fails.
    """
    require_clone()
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(SNAKEFILE.absolute())]
    command += ["--directory", str(folder), *arguments]
    # A profile of the user may send jobs to other machines, which do not see the folder.
    environment = {**os.environ}
    environment.pop("SNAKEMAKE_PROFILE", None)
    output = None if show else subprocess.PIPE
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=output,
        stderr=output,
        text=True,
        start_new_session=True,  # so that a signal to its group reaches its jobs, but not us
    )

    def end_jobs(*_: object) -> None:
        # Snakemake waits for its jobs. SIGINT would not end them where a script runs us with `&`.
        os.killpg(process.pid, signal.SIGTERM)

    earlier_handler = signal.signal(signal.SIGTERM, end_jobs)
    try:
        printed, errors = process.communicate()
    except KeyboardInterrupt:
        end_jobs()
        process.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, earlier_handler)
    if process.returncode:
        lines = f"{printed or ''}\n{errors or ''}".strip().splitlines()
        raise WorkflowFailedError("\n".join([f"the workflow failed in {folder}", *lines[-30:]]))
    return printed or ""


def list_jobs(targets: Sequence[str], overlays: Sequence[Path]) -> list[RecordedJob]:
    """List the jobs that made the targets, in the order of their first results.

    Raises ValueError if a result is missing or out of date, or if it is not known how it was made.
    """
    arguments = []
    if overlays:
        arguments += ["--configfile", *map(str, overlays)]
    paths = []
    stale = []
    for row in _summarize([*arguments, "--", *targets], Path.cwd()):
        paths.append(row["output_file"])
        if row["status"] != "ok" or row["plan"] != "no update":
            stale.append(row["output_file"])
    if stale:
        raise ValueError(
            f"{len(stale)} results are missing or out of date, such as {sorted(stale)[0]}:"
            " publish with `make publish`, which first makes them"
        )
    return read_jobs(Path(), paths)


def plan_jobs(targets: Sequence[str], folder: Path) -> list[JobFiles]:
    """Return the jobs that make the targets in a folder, and all that these depend on."""
    arguments = ["--dry-run", "--forceall", "--logger", "jobs", "--", *targets]
    jobs = []
    for line in run_snakemake(arguments, folder).splitlines():
        if line.startswith("{"):
            fields = json.loads(line)
            jobs.append(JobFiles(fields["rule_name"], fields["input"], fields["output"]))
    return jobs


def _summarize(arguments: Sequence[str], folder: Path) -> list[dict[str, str]]:
    """Return Snakemake's summary: a row for each file that the workflow makes in a folder."""
    printed = run_snakemake(["--detailed-summary", *arguments], folder)
    table = printed[printed.index(HEADER) :].splitlines()
    rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
    return [row for row in rows if row["plan"] is not None]  # what is printed after the table


def read_jobs(folder: Path, paths: Iterable[str]) -> list[RecordedJob]:
    """Read what Snakemake recorded of the jobs that made files, in a folder where it ran."""
    jobs: dict[tuple[str, str], RecordedJob] = {}
    for path in sorted(paths):
        record_file = folder / METADATA / _name_record(path)
        try:
            record = json.loads(record_file.read_text())
            function, code = _find_code(record["params"])
        except (FileNotFoundError, ValueError, KeyError):
            raise ValueError(
                f"{path}: Snakemake has no record of how it was made here; run the experiment in"
                " this folder first"
            ) from None
        log = record["log"][0]
        times = (record["starttime"], record["endtime"])
        job = RecordedJob(record["rule"], function, code, log, *times, tuple(record["input"]))
        jobs.setdefault((job.rule, log), job).outputs.append(path)
    return list(jobs.values())


def _name_record(path: str) -> Path:
    """Return the path of Snakemake's record of a result, below METADATA."""
    name = base64.urlsafe_b64encode(path.encode()).decode()
    parts = []
    while len(name) > MAX_NAME - 1:
        parts.append(f"@{name[: MAX_NAME - 1]}")
        name = name[MAX_NAME - 1 :]
    return Path(*parts, name)


def _find_code(params: Sequence[str]) -> tuple[str, str]:
    """Return the function and the digest of its code in a job's recorded params."""
    for param in params:
        match = CODE.fullmatch(param)
        if match:
            return match[1], match[2]
    raise ValueError("no param with the digest of the code")
