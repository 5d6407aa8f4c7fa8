"""Logging results in MLflow. Runs are added, never deleted; a tag says which ones show the present results.

Runs of others are left alone: each of ours has the tag `munkey.results`, the folder that it shows.
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
from munkey.experiment.tracking.store import StoreError, database_of, every, experiment_id, open_store, public

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun
    from mlflow.tracking import MlflowClient

    from munkey.experiment.tracking.runs import Run

RESULTS = "munkey.results"  # tag: the folder of results that a run shows
PRESENT = "munkey.present"  # tag: `true` if a run shows the results as they are now
CHANGED = "munkey.changed"  # tag: how its params differ from those of the run that it replaced
DIGEST = "munkey.digest"  # tag: a hash of what a run shows
PARENT = "mlflow.parentRunId"  # tag: the run under which MLflow shows it
SOURCE = {"mlflow.source.name": "munkey", "mlflow.source.type": "LOCAL"}  # tags
OWNER = "MUNKEY_OWNER"  # environment: whose runs these are, in place of this machine and folder
UI = "http://127.0.0.1:{port}"
UI_PORT = 5000
METRICS_AT_ONCE = 1000  # MLflow's limit
PARAMS_AT_ONCE = 100  # MLflow's limit
CHANGED_LENGTH = 500  # characters
TABLE = "main.json"  # artifact that MLflow shows as a table


class Logged(NamedTuple):
    """unchanged, added: counts of runs; pages: the address of each run; comparisons: addresses by name."""

    unchanged: int
    added: int
    pages: list[str]
    comparisons: dict[str, str]

    def __str__(self) -> str:
        return f"{self.unchanged} unchanged, {self.added} added"


def record(uri: str, configuration: str, runs: "Sequence[Run]", attempt: int) -> dict[str, object]:
    """Log the runs, and print what came of it. Returns the content of the file that stands for it.

    In that file, `failure` says why the store cannot be used, or is None; then each run has its page. attempt: from
    `next_attempt`.
    """
    failure = None
    pages = [""] * len(runs)
    comparisons: dict[str, str] = {}
    try:
        logged = log(uri, configuration, runs)
        pages = logged.pages
        comparisons = logged.comparisons
        print(f"MLflow at {public(uri)}, runs: {logged}")
    except StoreError as error:
        failure = str(error)
        print(failure)
    linked = []
    for run, page in zip(runs, pages, strict=True):
        linked.append({"name": run.name, "experiment": run.experiment, "page": page})
    return {"uri": uri, "attempt": attempt, "failure": failure, "runs": linked, "comparisons": comparisons}


def next_attempt(path: str) -> int:
    """The number of the next attempt to log, by what the last one left at `path`.

    As a parameter of the job, it makes the next run repeat a failed attempt, and leave a successful one alone.
    """
    if not Path(path).exists():
        return 0
    try:
        last = read_json(path)
    except DamagedFileError:
        return -1
    return int(last.get("attempt", 0)) + bool(last.get("failure"))


def outcome(path: str) -> str:
    """What the end of a run says of MLflow, by what it left at `path`: where to look, or why it failed."""
    last = read_json(path) if Path(path).exists() else {}
    if last.get("failure"):
        return str(last["failure"])
    uri = public(last.get("uri", ""))
    if uri.startswith("http"):
        return "\n          ".join([uri, *last["comparisons"].values()])
    return "make ui"


def log(uri: str, configuration: str, runs: "Sequence[Run]") -> Logged:
    """Log those of the runs that the store at `uri` does not have yet, and tag all as present.

    runs: each after the one that it is nested under. Waits while another process logs. Raises StoreError if the store
    cannot be used: what was there before is still there, and the next call goes on from there.
    """
    digests = [run.digest() for run in runs]  # before the store is opened: our own files are not its fault
    owner = owner_of(configuration, uri)
    database = database_of(uri)
    with open_store(uri) as client:
        experiments = {}
        for name in dict.fromkeys(run.experiment for run in runs):
            experiments[name] = experiment_id(client, name, database)
        earlier = _earlier(client, owner)
        by_digest = {(run.info.experiment_id, run.data.tags[DIGEST]): run for run in earlier}
        present = [run for run in earlier if run.data.tags.get(PRESENT) == "true"]
        replaced = {(run.info.experiment_id, run.info.run_name): run for run in present}
        ids: dict[tuple[str, str], str] = {}
        added = 0
        for run, digest in zip(runs, digests, strict=True):
            experiment = experiments[run.experiment]
            tags = {RESULTS: owner, DIGEST: digest, PRESENT: "true"}
            if run.parent:
                tags[PARENT] = ids[experiment, run.parent]
            known = by_digest.get((experiment, digest))
            if known:
                run_id = known.info.run_id
                for name, value in tags.items():
                    if known.data.tags.get(name) != value:
                        client.set_tag(run_id, name, value)
            else:
                if (experiment, run.name) in replaced:
                    tags[CHANGED] = _changes(replaced[experiment, run.name], run)
                run_id = _add(client, run, experiment, tags)
                added += 1
            ids[experiment, run.name] = run_id
        for run_before in present:
            if run_before.info.run_id not in ids.values():
                client.set_tag(run_before.info.run_id, PRESENT, "false")
        site = site_of(uri)
        addresses = comparisons(client, site, owner)
    pages = []
    for run in runs:
        experiment = experiments[run.experiment]
        pages.append(f"{site}/#/experiments/{experiment}/runs/{ids[experiment, run.name]}")
    return Logged(len(runs) - added, added, pages, addresses)


def owner_of(configuration: str, uri: str) -> str:
    """Whose the runs of a configuration are: its folder of results, as no other checkout names it in this store.

    In an SQLite file, the path from the file to the folder; elsewhere machine and path, or MUNKEY_OWNER if it is set.
    """
    results = Path("results", configuration).absolute()
    database = database_of(uri)
    if database:
        return os.path.relpath(results, database.parent)
    owner = os.environ.get(OWNER)
    return f"{owner}/{configuration}" if owner else f"{socket.gethostname()}:{results}"


def site_of(uri: str, port: int = UI_PORT) -> str:
    """The address that the pages of a store's runs begin with."""
    return public(uri).rstrip("/") if uri.startswith("http") else UI.format(port=port)


def comparisons(client: "MlflowClient", site: str, owner: str | None = None) -> dict[str, str]:
    """Addresses of MLflow's page that compares runs: the present methods of each data set and rate, by name.

    owner: whose; None: everybody's.
    """
    experiments = {each.experiment_id: each.name for each in every(client.search_experiments)}
    condition = f"tags.kind = 'method' and tags.`{PRESENT}` = 'true'"
    if owner:
        condition += f' and tags.`{RESULTS}` = "{owner}"'
    groups: dict[tuple[str, str, str], list[MlflowRun]] = {}
    for run in every(client.search_runs, list(experiments), condition):
        tags = run.data.tags
        key = (tags[RESULTS], run.info.experiment_id, tags["rate"])
        groups.setdefault(key, []).append(run)
    addresses = {}
    for (folder, experiment, rate), runs in sorted(groups.items()):
        # The smallest gap to the oracle first; oracles and originals, which have none, last.
        runs.sort(key=lambda run: (run.data.metrics.get("gap", float("inf")), run.info.run_name))
        ids = quote(json.dumps([run.info.run_id for run in runs], separators=(",", ":")))
        name = f"{folder}: {experiments[experiment]}, {100 * float(rate):g} % forgotten"
        addresses[name] = f"{site}/#/compare-runs?runs={ids}&experiments={quote(json.dumps([experiment]))}"
    return addresses


def _earlier(client: "MlflowClient", owner: str) -> "list[MlflowRun]":
    """The runs of an owner. Those that were cut off while they were written are marked as killed and left out."""
    experiments = [each.experiment_id for each in every(client.search_experiments)]
    finished = []
    for run in every(client.search_runs, experiments, f'tags.`{RESULTS}` = "{owner}"'):
        if run.info.status == "FINISHED":
            finished.append(run)
        elif run.info.status == "RUNNING":
            client.set_terminated(run.info.run_id, "KILLED")
            client.set_tag(run.info.run_id, PRESENT, "false")
    return finished


def _changes(before: "MlflowRun", run: "Run") -> str:
    """How the params of a run differ from those of the one that it replaces, in words."""
    params = {name: str(value) for name, value in run.params.items()}
    changes = []
    for name in sorted(params.keys() | before.data.params.keys()):
        old = before.data.params.get(name, "–")
        new = params.get(name, "–")
        if old != new:
            changes.append(f"{name}: {old} → {new}")
    text = "; ".join(changes) or "no setting: code, data or versions"
    return text if len(text) <= CHANGED_LENGTH else text[: CHANGED_LENGTH - 1] + "…"


def _add(client: "MlflowClient", run: "Run", experiment: str, tags: Mapping[str, str]) -> str:
    """Add a run and return its id. It is marked as finished last: one that was cut off is not."""
    from mlflow.entities import Metric, Param

    ended = _milliseconds(run.ended)
    created = client.create_run(experiment, _milliseconds(run.started), {**run.tags, **SOURCE, **tags}, run.name)
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
    return round(datetime.fromisoformat(moment).timestamp() * 1000) if moment else None
