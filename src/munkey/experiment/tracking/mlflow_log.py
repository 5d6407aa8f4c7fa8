"""Logging results in MLflow. Runs are added, never deleted; a tag says which ones show the present results.

Runs of others are left alone: each of ours has the tag `munkey.results`, the folder that it shows.
"""

import json
import os
import socket
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from munkey.core.console import pluralize
from munkey.core.files import DamagedFileError, read_json, read_table
from munkey.experiment.tracking.store import (
    StoreError,
    experiment_id,
    find_database,
    hide_credentials,
    iterate_pages,
    open_store,
)
from munkey.report.tables.terminal import WIDTH

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun
    from mlflow.tracking import MlflowClient

    from munkey.experiment.tracking.runs import Run

RESULTS = "munkey.results"  # tag: the folder of results that a run shows
PRESENT = "munkey.present"  # tag: `true` if a run shows the results as they are now
CHANGED = "munkey.changed"  # tag: how its params differ from those of the run that it replaced
REPLACED = "munkey.replaced"  # tag: the id of that run
DIGEST = "munkey.digest"  # tag: a hash of the contents of a run
PARENT = "mlflow.parentRunId"  # tag: the run under which MLflow shows it
SOURCE = {"mlflow.source.name": "munkey", "mlflow.source.type": "LOCAL"}  # tags
OWNER = "MUNKEY_OWNER"  # environment: whose runs these are, in place of this machine and folder
UI = "http://127.0.0.1:{port}"
UI_PORT = 5000
METRICS_PER_CALL = 1000  # MLflow's limit
PARAMS_PER_CALL = 100  # MLflow's limit
CHANGED_LENGTH = 500  # characters
NO_SETTING = "no setting: code, data or versions"  # what changed
SHOWN_CHANGES = 3  # at the end of a run
TABLE = "main.json"  # artifact that MLflow shows as a table


class LogSummary(NamedTuple):
    """What a run has logged.

    Attributes
    ----------
    unchanged, added
        The numbers of runs.
    pages
        The address of each run.
    comparisons
        The addresses of pages that compare runs, by name.
    replaced
        How many runs showed earlier results until now.
    changes
        How their settings differ from the present ones.
    """

    unchanged: int
    added: int
    pages: list[str]
    comparisons: dict[str, str]
    replaced: int
    changes: list[str]

    def __str__(self) -> str:
        return f"{self.unchanged} unchanged, {self.added} added"


def record(uri: str, configuration: str, runs: "Sequence[Run]", attempt: int) -> dict[str, object]:
    """Log the runs, and print a summary. Returns the content of the job's result file.

    In that file, `failure` says why the store cannot be used, or is None; then each run has its
    page.

    Parameters
    ----------
    attempt
        The number that `next_attempt` returned.
    """
    failure = None
    pages = [""] * len(runs)
    comparisons: dict[str, str] = {}
    replaced: dict[str, object] = {"runs": 0, "changes": []}
    try:
        summary = log(uri, configuration, runs)
        pages = summary.pages
        comparisons = summary.comparisons
        replaced = {"runs": summary.replaced, "changes": summary.changes}
        print(f"MLflow at {hide_credentials(uri)}, runs: {summary}")
    except StoreError as error:
        failure = str(error)
        print(failure)
    linked_runs = []
    for run, page in zip(runs, pages, strict=True):
        linked_runs.append({"name": run.name, "experiment": run.experiment, "page": page})
    return {
        "uri": uri,
        "attempt": attempt,
        "failure": failure,
        "runs": linked_runs,
        "comparisons": comparisons,
        "replaced": replaced,
    }


def next_attempt(path: str) -> int:
    """Return the number of the next attempt to log, from the file that the last one wrote at `path`.

    It is a parameter of the job, so it changes after a failed attempt, which the next run repeats,
    and stays the same after a successful one.
    """
    if not Path(path).exists():
        return 0
    try:
        last = read_json(path)
    except DamagedFileError:
        return -1  # unlike that of any attempt
    attempt = int(last.get("attempt", 0))
    if last.get("failure"):
        attempt += 1
    return attempt


def outcome(path: str) -> str:
    """Return the words on MLflow at the end of a run: where to look, or why it failed.

    `path` is the file that the job of tracking wrote.
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


def replaced_message(path: str, since: float) -> str:
    """Return the words at the end of a run on earlier runs whose results it replaced, if any.

    Parameters
    ----------
    path
        The file that the job of tracking wrote.
    since
        The time at which this run began. An older file reports what earlier runs replaced.
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
    words = (
        f"{pluralize(earlier['runs'], 'earlier run')} ({listed}). MLflow still has them; tables and files on disk are"
        " the present ones. To keep both on disk: a `name` of its own, `ablations`, or `dvc exp run -S`"
        " (docs/running.md#change-a-knob-compare)"
    )
    return textwrap.fill(words, WIDTH, initial_indent="replaced  ", subsequent_indent=" " * 10)


def log(uri: str, configuration: str, runs: "Sequence[Run]") -> LogSummary:
    """Log those of the runs that the store at `uri` does not have yet, and tag all as present.

    Waits while another process logs. Raises StoreError if the store cannot be used: runs logged
    before are still there, and the next call goes on from there.

    Parameters
    ----------
    runs
        The runs, each after the one that it is nested under.
    """
    # Read our own files before the store is opened: a fault in them is not a StoreError.
    digests = [run.digest() for run in runs]
    owner = get_owner(configuration, uri)
    database = find_database(uri)
    with open_store(uri) as client:
        experiments = {}
        for run in runs:
            name = run.experiment
            if name not in experiments:
                experiments[name] = experiment_id(client, name, database)
        by_digest: dict[tuple[str, str], MlflowRun] = {}
        present_by_name: dict[tuple[str, str], MlflowRun] = {}
        present = []
        for earlier in _find_finished_runs(client, owner):
            by_digest[earlier.info.experiment_id, earlier.data.tags[DIGEST]] = earlier
            if earlier.data.tags.get(PRESENT) == "true":
                present.append(earlier)
                present_by_name[earlier.info.experiment_id, earlier.info.run_name] = earlier
        ids: dict[tuple[str, str], str] = {}
        changes: dict[str, None] = {}
        added = 0
        for run, digest in zip(runs, digests, strict=True):
            experiment = experiments[run.experiment]
            tags = {RESULTS: owner, DIGEST: digest, PRESENT: "true"}
            if run.parent:
                tags[PARENT] = ids[experiment, run.parent]
            same_run = by_digest.get((experiment, digest))
            replaced_run = present_by_name.get((experiment, run.name))
            is_present = same_run is not None and same_run.data.tags.get(PRESENT) == "true"
            # Also if an edit was taken back: then the earlier run replaces the later one.
            if replaced_run and not is_present:
                tags[REPLACED] = replaced_run.info.run_id
                tags[CHANGED] = _describe_changes(replaced_run, run)
                changes[tags[CHANGED]] = None
            if same_run:
                run_id = same_run.info.run_id
                _set_tags(client, same_run, tags)
            else:
                run_id = _add(client, run, experiment, tags)
                added += 1
            ids[experiment, run.name] = run_id
        replaced = [earlier for earlier in present if earlier.info.run_id not in ids.values()]
        for earlier in replaced:
            client.set_tag(earlier.info.run_id, PRESENT, "false")
        site = get_site(uri)
        addresses = comparisons(client, site, owner)
    pages = []
    for run in runs:
        experiment = experiments[run.experiment]
        pages.append(f"{site}/#/experiments/{experiment}/runs/{ids[experiment, run.name]}")
    return LogSummary(
        unchanged=len(runs) - added,
        added=added,
        pages=pages,
        comparisons=addresses,
        replaced=len(replaced),
        changes=list(changes),
    )


def get_owner(configuration: str, uri: str) -> str:
    """Return the owner of a configuration's runs: a name of its results that is unique in the store.

    In an SQLite file, it is the path from the file to the folder of results; elsewhere machine and
    path, or what MUNKEY_OWNER says.
    """
    results = Path("results", configuration).absolute()
    database = find_database(uri)
    if database:
        return os.path.relpath(results, database.parent)
    owner = os.environ.get(OWNER)
    if owner:
        return f"{owner}/{configuration}"
    return f"{socket.gethostname()}:{results}"


def get_site(uri: str, port: int = UI_PORT) -> str:
    """Return the address that the pages of a store's runs begin with."""
    if uri.startswith("http"):
        return hide_credentials(uri).rstrip("/")
    return UI.format(port=port)


def comparisons(client: "MlflowClient", site: str, owner: str | None = None) -> dict[str, str]:
    """Return addresses of MLflow's page that compares runs, by name.

    It compares the present methods of each data set and rate; these methods with the runs that they
    replaced, if any; and the methods of all folders of results with that data set and rate.

    Parameters
    ----------
    owner
        The owner of the runs; None for those of all owners.
    """
    experiments = {}  # names by id
    for mlflow_experiment in iterate_pages(client.search_experiments):
        experiments[mlflow_experiment.experiment_id] = mlflow_experiment.name
    condition = "tags.kind = 'method'"
    if owner:
        condition += f' and tags.`{RESULTS}` = "{owner}"'
    by_id: dict[str, MlflowRun] = {}
    groups: dict[tuple[str, str, str], list[MlflowRun]] = {}
    for run in iterate_pages(client.search_runs, list(experiments), condition):
        by_id[run.info.run_id] = run
        tags = run.data.tags
        if tags.get(PRESENT) == "true":
            key = (tags[RESULTS], run.info.experiment_id, tags["rate"])
            groups.setdefault(key, []).append(run)
    addresses = {}
    folders: dict[tuple[str, str], list[str]] = {}
    together: dict[tuple[str, str], list[MlflowRun]] = {}
    for (folder, experiment, rate), runs in sorted(groups.items()):
        name = f"{experiments[experiment]}, {100 * float(rate):g} % forgotten"
        addresses[f"{folder}: {name}"] = _make_comparison_address(site, experiment, runs)
        replacing = [run for run in runs if run.data.tags.get(REPLACED) in by_id]
        if replacing:
            replaced = [by_id[run.data.tags[REPLACED]] for run in replacing]
            address = _make_comparison_address(site, experiment, replacing + replaced)
            addresses[f"{folder}: {name}, before and after the last change"] = address
        folders.setdefault((experiment, rate), []).append(folder)
        together.setdefault((experiment, rate), []).extend(runs)
    for (experiment, rate), names in folders.items():
        if len(names) > 1:
            name = f"{experiments[experiment]}, {100 * float(rate):g} % forgotten"
            runs = together[experiment, rate]
            address = _make_comparison_address(site, experiment, runs)
            addresses[f"{', '.join(names)}: {name}"] = address
    return addresses


def _make_comparison_address(site: str, experiment: str, runs: "Sequence[MlflowRun]") -> str:
    """Return the address that compares runs, the smallest gap first.

    Oracles and originals, which have no gap, are last.
    """

    def get_gap_and_name(run: "MlflowRun") -> tuple[float, str]:
        return run.data.metrics.get("gap", float("inf")), run.info.run_name

    ids = [run.info.run_id for run in sorted(runs, key=get_gap_and_name)]
    quoted_ids = quote(json.dumps(ids, separators=(",", ":")))
    quoted_experiments = quote(json.dumps([experiment]))
    return f"{site}/#/compare-runs?runs={quoted_ids}&experiments={quoted_experiments}"


def _find_finished_runs(client: "MlflowClient", owner: str) -> "list[MlflowRun]":
    """Return the runs of an owner.

    Those that were cut off while they were written are marked as killed and left out.
    """
    experiments = []
    for experiment in iterate_pages(client.search_experiments):
        experiments.append(experiment.experiment_id)
    finished = []
    for run in iterate_pages(client.search_runs, experiments, f'tags.`{RESULTS}` = "{owner}"'):
        if run.info.status == "FINISHED":
            finished.append(run)
        elif run.info.status == "RUNNING":
            client.set_terminated(run.info.run_id, "KILLED")
            client.set_tag(run.info.run_id, PRESENT, "false")
    return finished


def _set_tags(client: "MlflowClient", run: "MlflowRun", tags: Mapping[str, str]) -> None:
    """Set those tags of a run that differ."""
    for name, value in tags.items():
        if run.data.tags.get(name) != value:
            client.set_tag(run.info.run_id, name, value)


def _describe_changes(before: "MlflowRun", run: "Run") -> str:
    """Describe how the params of a run differ from those of the run that it replaces."""
    params = {name: str(value) for name, value in run.params.items()}
    changes = []
    for name in sorted(params.keys() | before.data.params.keys()):
        old = before.data.params.get(name, "–")
        new = params.get(name, "–")
        if old != new:
            changes.append(f"{name}: {old} → {new}")
    text = "; ".join(changes) or NO_SETTING
    if len(text) > CHANGED_LENGTH:
        text = text[: CHANGED_LENGTH - 1] + "…"
    return text


def _add(client: "MlflowClient", run: "Run", experiment: str, tags: Mapping[str, str]) -> str:
    """Add a run and return its id. It is marked as finished at the very end, so one cut off is not."""
    from mlflow.entities import Metric, Param

    start = _parse_milliseconds(run.started)
    end = _parse_milliseconds(run.ended)
    created = client.create_run(experiment, start, {**run.tags, **SOURCE, **tags}, run.name)
    run_id = created.info.run_id
    for path in run.artifacts:
        client.log_artifact(run_id, path)
    if run.table:
        client.log_table(run_id, read_table(run.table), TABLE)
    params = [Param(name, str(value)) for name, value in run.params.items()]
    for first in range(0, len(params), PARAMS_PER_CALL):
        client.log_batch(run_id, params=params[first : first + PARAMS_PER_CALL])
    time = end or created.info.start_time
    metrics = [Metric(name, value, time, 0) for name, value in run.metrics.items()]
    for name, curve in run.curves.items():
        for epoch, value in enumerate(curve, start=1):
            metrics.append(Metric(name, value, time, epoch))
    for first in range(0, len(metrics), METRICS_PER_CALL):
        client.log_batch(run_id, metrics=metrics[first : first + METRICS_PER_CALL])
    client.set_terminated(run_id, "FINISHED", end)
    return run_id


def _parse_milliseconds(moment: str | None) -> int | None:
    if not moment:
        return None
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
