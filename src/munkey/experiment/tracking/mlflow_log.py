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
    database_of,
    experiment_id,
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
DIGEST = "munkey.digest"  # tag: a hash of what a run shows
PARENT = "mlflow.parentRunId"  # tag: the run under which MLflow shows it
SOURCE = {"mlflow.source.name": "munkey", "mlflow.source.type": "LOCAL"}  # tags
OWNER = "MUNKEY_OWNER"  # environment: whose runs these are, in place of this machine and folder
UI = "http://127.0.0.1:{port}"
UI_PORT = 5000
METRICS_AT_ONCE = 1000  # MLflow's limit
PARAMS_AT_ONCE = 100  # MLflow's limit
CHANGED_LENGTH = 500  # characters
NO_SETTING = "no setting: code, data or versions"  # what changed
SHOWN_CHANGES = 3  # at the end of a run
TABLE = "main.json"  # artifact that MLflow shows as a table


class LogSummary(NamedTuple):
    """What a run has logged.

    Attributes
    ----------
    unchanged, added
        Counts of runs.
    pages
        The address of each run.
    comparisons
        Addresses by name.
    replaced
        How many runs showed the results until now.
    changes
        How their settings differ from those of now.
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
    """Log the runs, and print what came of it. Returns the content of the file that stands for it.

    In that file, `failure` says why the store cannot be used, or is None; then each run has its
    page.

    Parameters
    ----------
    attempt
        From `next_attempt`.
    """
    failure = None
    pages = [""] * len(runs)
    comparisons: dict[str, str] = {}
    earlier: dict[str, object] = {"runs": 0, "changes": []}
    try:
        logged = log(uri, configuration, runs)
        pages = logged.pages
        comparisons = logged.comparisons
        earlier = {"runs": logged.replaced, "changes": logged.changes}
        print(f"MLflow at {hide_credentials(uri)}, runs: {logged}")
    except StoreError as error:
        failure = str(error)
        print(failure)
    linked = []
    for run, page in zip(runs, pages, strict=True):
        linked.append({"name": run.name, "experiment": run.experiment, "page": page})
    return {
        "uri": uri,
        "attempt": attempt,
        "failure": failure,
        "runs": linked,
        "comparisons": comparisons,
        "replaced": earlier,
    }


def next_attempt(path: str) -> int:
    """Return the number of the next attempt to log, from the file that the last one wrote at `path`.

    As a parameter of the job, it makes the next run repeat a failed attempt, and leave a successful
    one alone.
    """
    if not Path(path).exists():
        return 0
    try:
        last = read_json(path)
    except DamagedFileError:
        return -1
    return int(last.get("attempt", 0)) + bool(last.get("failure"))


def outcome(path: str) -> str:
    """Return the words on MLflow at the end of a run, from its file at `path`: where to look, or why it failed."""
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
    """Return the words at the end of a run on earlier runs whose results it replaced; empty if there were none.

    Replacements by earlier runs are old news and left out.

    Parameters
    ----------
    path
        As for `outcome`.
    since
        When this run began.
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
        Each after the one that it is nested under.
    """
    # before the store is opened: our own files are not its fault
    digests = [run.digest() for run in runs]
    owner = owner_of(configuration, uri)
    database = database_of(uri)
    with open_store(uri) as client:
        experiments = {}
        for run in runs:
            name = run.experiment
            if name not in experiments:
                experiments[name] = experiment_id(client, name, database)
        by_digest: dict[tuple[str, str], MlflowRun] = {}
        replaced: dict[tuple[str, str], MlflowRun] = {}
        present = []
        for earlier in _finished_runs(client, owner):
            by_digest[earlier.info.experiment_id, earlier.data.tags[DIGEST]] = earlier
            if earlier.data.tags.get(PRESENT) == "true":
                present.append(earlier)
                replaced[earlier.info.experiment_id, earlier.info.run_name] = earlier
        ids: dict[tuple[str, str], str] = {}
        changes: dict[str, None] = {}
        added = 0
        for run, digest in zip(runs, digests, strict=True):
            experiment = experiments[run.experiment]
            tags = {RESULTS: owner, DIGEST: digest, PRESENT: "true"}
            if run.parent:
                tags[PARENT] = ids[experiment, run.parent]
            logged = by_digest.get((experiment, digest))
            before = replaced.get((experiment, run.name))
            # Also if an edit was taken back: then the earlier run replaces the later one.
            if before and (logged is None or logged.data.tags.get(PRESENT) != "true"):
                tags[REPLACED] = before.info.run_id
                tags[CHANGED] = _changes(before, run)
                changes[tags[CHANGED]] = None
            if logged:
                run_id = logged.info.run_id
                _set_tags(client, logged, tags)
            else:
                run_id = _add(client, run, experiment, tags)
                added += 1
            ids[experiment, run.name] = run_id
        gone = [earlier for earlier in present if earlier.info.run_id not in ids.values()]
        for earlier in gone:
            client.set_tag(earlier.info.run_id, PRESENT, "false")
        site = site_of(uri)
        addresses = comparisons(client, site, owner)
    pages = []
    for run in runs:
        experiment = experiments[run.experiment]
        pages.append(f"{site}/#/experiments/{experiment}/runs/{ids[experiment, run.name]}")
    return LogSummary(len(runs) - added, added, pages, addresses, len(gone), list(changes))


def owner_of(configuration: str, uri: str) -> str:
    """Whose the runs of a configuration are: its folder of results, as no other checkout names it in this store.

    In an SQLite file, the path from the file to the folder; elsewhere machine and path, or
    MUNKEY_OWNER if it is set.
    """
    results = Path("results", configuration).absolute()
    database = database_of(uri)
    if database:
        return os.path.relpath(results, database.parent)
    owner = os.environ.get(OWNER)
    if owner:
        return f"{owner}/{configuration}"
    return f"{socket.gethostname()}:{results}"


def site_of(uri: str, port: int = UI_PORT) -> str:
    """Return the address that the pages of a store's runs begin with."""
    if uri.startswith("http"):
        return hide_credentials(uri).rstrip("/")
    return UI.format(port=port)


def comparisons(client: "MlflowClient", site: str, owner: str | None = None) -> dict[str, str]:
    """Addresses of MLflow's page that compares runs: the present methods of each data set and rate, by name.

    Two more kinds: these methods beside the runs that they replaced, where any did; and the methods
    of all folders of results that have that data set and rate, where there are several.

    Parameters
    ----------
    owner
        Whose; None: everybody's.
    """
    experiments = {
        each.experiment_id: each.name for each in iterate_pages(client.search_experiments)
    }
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
        addresses[f"{folder}: {name}"] = _comparison(site, experiment, runs)
        pairs = [run for run in runs if run.data.tags.get(REPLACED) in by_id]
        if pairs:
            pairs += [by_id[run.data.tags[REPLACED]] for run in pairs]
            addresses[f"{folder}: {name}, before and after the last change"] = _comparison(
                site, experiment, pairs
            )
        folders.setdefault((experiment, rate), []).append(folder)
        together.setdefault((experiment, rate), []).extend(runs)
    for (experiment, rate), names in folders.items():
        if len(names) > 1:
            name = f"{experiments[experiment]}, {100 * float(rate):g} % forgotten"
            addresses[f"{', '.join(names)}: {name}"] = _comparison(
                site, experiment, together[experiment, rate]
            )
    return addresses


def _comparison(site: str, experiment: str, runs: "Sequence[MlflowRun]") -> str:
    """Return the address that compares runs: the smallest gap first; oracles and originals, which have none, last."""

    def gap_and_name(run: "MlflowRun") -> tuple[float, str]:
        return run.data.metrics.get("gap", float("inf")), run.info.run_name

    ordered = sorted(runs, key=gap_and_name)
    ids = quote(json.dumps([run.info.run_id for run in ordered], separators=(",", ":")))
    return f"{site}/#/compare-runs?runs={ids}&experiments={quote(json.dumps([experiment]))}"


def _finished_runs(client: "MlflowClient", owner: str) -> "list[MlflowRun]":
    """Return the runs of an owner.

    Those that were cut off while they were written are marked as killed and left out.
    """
    experiments = [each.experiment_id for each in iterate_pages(client.search_experiments)]
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


def _changes(before: "MlflowRun", run: "Run") -> str:
    """Return how the params of a run differ from those of the one that it replaces, in words."""
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
    """Add a run and return its id. It is marked as finished last: one that was cut off is not."""
    from mlflow.entities import Metric, Param

    ended = _milliseconds(run.ended)
    created = client.create_run(
        experiment, _milliseconds(run.started), {**run.tags, **SOURCE, **tags}, run.name
    )
    run_id = created.info.run_id
    for path in run.artifacts:
        client.log_artifact(run_id, path)
    if run.table:
        client.log_table(run_id, read_table(run.table), TABLE)
    params = [Param(name, str(value)) for name, value in run.params.items()]
    for start in range(0, len(params), PARAMS_AT_ONCE):
        client.log_batch(run_id, params=params[start : start + PARAMS_AT_ONCE])
    time = ended or created.info.start_time
    metrics = [Metric(name, value, time, 0) for name, value in run.metrics.items()]
    for name, curve in run.curves.items():
        for epoch, value in enumerate(curve, start=1):
            metrics.append(Metric(name, value, time, epoch))
    for start in range(0, len(metrics), METRICS_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[start : start + METRICS_AT_ONCE])
    client.set_terminated(run_id, "FINISHED", ended)
    return run_id


def _milliseconds(moment: str | None) -> int | None:
    if not moment:
        return None
    return round(datetime.fromisoformat(moment).timestamp() * 1000)
