"""Logging results to MLflow. Runs are never deleted; a tag marks the runs with current results.

Our runs have the tag `munkey.results` with their folder of results. Other runs are not touched.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from munkey.core.files import DamagedFileError, read_json, read_table
from munkey.experiment.tracking.store import (
    StoreError,
    find_database,
    get_experiment_id,
    hide_credentials,
    iterate_pages,
    open_store,
)

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun
    from mlflow.tracking import MlflowClient

    from munkey.experiment.tracking.runs import Run

# Tags of a run
RESULTS = "munkey.results"  # the folder of its results
PRESENT = "munkey.present"  # `true` if it has the current results
CHANGED = "munkey.changed"  # how its params differ from those of the run that it replaced
REPLACED = "munkey.replaced"  # the id of that run
DIGEST = "munkey.digest"  # a hash of its contents
PARENT = "mlflow.parentRunId"  # the run that it is nested under
SOURCE = {"mlflow.source.name": "munkey", "mlflow.source.type": "LOCAL"}
# Environment variable: the owner of runs, instead of this machine and folder
OWNER = "MUNKEY_OWNER"
UI = "http://127.0.0.1:{port}"
UI_PORT = 5000
METRICS_PER_CALL = 1000  # MLflow's limit
PARAMS_PER_CALL = 100  # MLflow's limit
CHANGED_LENGTH = 500  # characters
NO_SETTING = "no setting: code, data or versions"  # if no param changed
TABLE = "main.json"  # the artifact that MLflow shows as a table


class LogSummary(NamedTuple):
    """A summary of the logged runs.

    Attributes
    ----------
    unchanged, added
        The numbers of runs.
    pages, comparisons
        The addresses of each run's page, and of pages that compare runs, by name.
    replaced
        The number of earlier runs whose results were replaced.
    changes
        How the settings differ from those of the replaced runs.
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

    `failure` is the reason why the store cannot be used, or None; then each entry of `runs` has the
    address of the run's page. attempt: from `next_attempt`.
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
    """Return the number of the next attempt to log, a param of the job.

    It increases after a failed attempt, so the next run repeats the job. path: the file that the last
    attempt wrote.
    """
    if not Path(path).exists():
        return 0
    try:
        last = read_json(path)
    except DamagedFileError:
        return -1  # differs from the number of any attempt, so the job is repeated
    attempt = int(last.get("attempt", 0))
    if last.get("failure"):
        attempt += 1
    return attempt


def log(uri: str, configuration: str, runs: "Sequence[Run]") -> LogSummary:
    """Log the runs that are not yet in the store at `uri`, and tag all of them as present.

    Earlier runs of this configuration lose the tag. Waits while another process logs. A run comes
    after the one that it is nested under. Raises StoreError if the store cannot be used; the next
    call skips the runs that were logged before.
    """
    # Read our own files before opening the store, since a fault in them is not a StoreError.
    digests = [run.digest() for run in runs]
    owner = get_owner(configuration, uri)
    database = find_database(uri)
    with open_store(uri) as client:
        experiments = {}
        for run in runs:
            name = run.experiment
            if name not in experiments:
                experiments[name] = get_experiment_id(client, name, database)
        by_digest: dict[tuple[str, str], MlflowRun] = {}
        present_by_name: dict[tuple[str, str], MlflowRun] = {}
        present_runs = []
        for earlier_run in _find_finished_runs(client, owner):
            experiment = earlier_run.info.experiment_id
            by_digest[experiment, earlier_run.data.tags[DIGEST]] = earlier_run
            if _is_present(earlier_run):
                present_runs.append(earlier_run)
                present_by_name[experiment, earlier_run.info.run_name] = earlier_run
        ids: dict[tuple[str, str], str] = {}
        changes: dict[str, None] = {}  # an ordered set
        added = 0
        for run, digest in zip(runs, digests, strict=True):
            experiment = experiments[run.experiment]
            tags = {RESULTS: owner, DIGEST: digest, PRESENT: "true"}
            if run.parent:
                tags[PARENT] = ids[experiment, run.parent]
            # A run with the same contents is not logged again. If it is no longer present, since an
            # edit was reverted, it replaces the later run.
            same_run = by_digest.get((experiment, digest))
            replaced_run = present_by_name.get((experiment, run.name))
            is_same_present = same_run is not None and _is_present(same_run)
            if replaced_run and not is_same_present:
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
        replaced_runs = [run for run in present_runs if run.info.run_id not in ids.values()]
        for old_run in replaced_runs:
            client.set_tag(old_run.info.run_id, PRESENT, "false")
        site = get_site(uri)
        comparisons = list_comparisons(client, site, owner)
    pages = []
    for run in runs:
        experiment = experiments[run.experiment]
        pages.append(f"{site}/#/experiments/{experiment}/runs/{ids[experiment, run.name]}")
    return LogSummary(
        unchanged=len(runs) - added,
        added=added,
        pages=pages,
        comparisons=comparisons,
        replaced=len(replaced_runs),
        changes=list(changes),
    )


def _is_present(run: "MlflowRun") -> bool:
    """Return whether a run has the current results."""
    return run.data.tags.get(PRESENT) == "true"


def get_owner(configuration: str, uri: str) -> str:
    """Return the owner of a configuration's runs: a unique name of its results in the store.

    In an SQLite store, it is the path of the folder of results relative to the store's folder. In
    other stores, it is OWNER/CONFIGURATION if the variable MUNKEY_OWNER is set to OWNER, or else
    MACHINE:PATH.
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
    """Return the base address of the pages of a store's runs."""
    if uri.startswith("http"):
        return hide_credentials(uri).rstrip("/")
    return UI.format(port=port)


def list_comparisons(client: "MlflowClient", site: str, owner: str | None = None) -> dict[str, str]:
    """Return the addresses of MLflow's pages that compare runs, by name.

    For each data set and rate: a page for the present methods of each folder of results; one for
    methods before and after, if runs were replaced; one for all folders, if there are several.
    owner: None for all owners.
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
        if _is_present(run):
            key = (tags[RESULTS], run.info.experiment_id, tags["rate"])
            groups.setdefault(key, []).append(run)
    addresses = {}
    folders: dict[tuple[str, str], list[str]] = {}
    runs_of_folders: dict[tuple[str, str], list[MlflowRun]] = {}
    for (folder, experiment, rate), runs in sorted(groups.items()):
        name = f"{experiments[experiment]}, {100 * float(rate):g}% forgotten"
        addresses[f"{folder}: {name}"] = _make_comparison_address(site, experiment, runs)
        replacing = [run for run in runs if run.data.tags.get(REPLACED) in by_id]
        if replacing:
            replaced = [by_id[run.data.tags[REPLACED]] for run in replacing]
            address = _make_comparison_address(site, experiment, replacing + replaced)
            addresses[f"{folder}: {name}, before and after the last change"] = address
        folders.setdefault((experiment, rate), []).append(folder)
        runs_of_folders.setdefault((experiment, rate), []).extend(runs)
    for (experiment, rate), names in folders.items():
        if len(names) > 1:
            name = f"{experiments[experiment]}, {100 * float(rate):g}% forgotten"
            runs = runs_of_folders[experiment, rate]
            address = _make_comparison_address(site, experiment, runs)
            addresses[f"{', '.join(names)}: {name}"] = address
    return addresses


def _make_comparison_address(site: str, experiment: str, runs: "Sequence[MlflowRun]") -> str:
    """Return the address of the page that compares these runs, sorted by gap."""

    def get_gap_and_name(run: "MlflowRun") -> tuple[float, str]:
        return run.data.metrics.get("gap", float("inf")), run.info.run_name

    ids = [run.info.run_id for run in sorted(runs, key=get_gap_and_name)]
    quoted_ids = quote(json.dumps(ids, separators=(",", ":")))
    quoted_experiments = quote(json.dumps([experiment]))
    return f"{site}/#/compare-runs?runs={quoted_ids}&experiments={quoted_experiments}"


def _find_finished_runs(client: "MlflowClient", owner: str) -> "list[MlflowRun]":
    """Return the finished runs of an owner.

    Runs whose logging was interrupted are marked as killed, and left out.
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
    """Set those tags of a run whose values differ."""
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
    """Add a run, and return its id. The run is marked as finished only when it is complete."""
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
