"""Mirroring all results in MLflow: after it, a store holds exactly the present runs of a configuration.

What has not changed stays as it is. What has changed or is gone is deleted once all new runs stand, through the client:
MLflow can restore it until `mlflow gc`. The runs of others are left alone: each run has the tag `munkey.results`, the
folder that it shows.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from munkey.core.files import DamagedFileError, read_json
from munkey.experiment.tracking import models, views
from munkey.experiment.tracking.store import MlflowStore, StoreError, every, open_store, public
from munkey.experiment.tracking.views import RESULTS

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun

    from munkey.experiment.tracking.runs import Run

DIGEST = "munkey.digest"  # a tag: a hash of what a run shows
PARENT = "mlflow.parentRunId"  # a tag: under which run MLflow shows it
SOURCE = {"mlflow.source.name": "munkey", "mlflow.source.type": "LOCAL"}  # tags
METRICS, PARAMS = 1000, 100  # MLflow's limits in one call


class Mirrored(NamedTuple):
    """counts: runs that were unchanged, created, deleted; pages: the address of each run; views: by name, the addresses
    that compare methods."""

    counts: dict[str, int]
    pages: list[str]
    views: dict[str, str]

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in self.counts.items())


def record(uri: str, configuration: str, runs: "Sequence[Run]", attempt: int) -> dict[str, object]:
    """Mirror the runs. Returns the content of the file that stands for it, and prints what came of it.

    In that file, failure is why the store cannot be used, or None; then each run has its page, and views are addresses
    that compare methods. attempt: from `next_attempt`.
    """
    failure, pages = None, [""] * len(runs)
    addresses: dict[str, str] = {}
    try:
        mirrored = mirror(uri, configuration, runs)
        pages, addresses = mirrored.pages, mirrored.views
        print(f"MLflow at {public(uri)}, runs: {mirrored}")
    except StoreError as error:
        failure = str(error)
        print(failure)
    linked = [
        {"name": run.name, "experiment": run.experiment, "page": page} for run, page in zip(runs, pages, strict=True)
    ]
    return {"uri": uri, "attempt": attempt, "failure": failure, "runs": linked, "views": addresses}


def next_attempt(path: str) -> int:
    """The number of the next attempt to mirror, by what the last one left at `path`.

    As a parameter of the job it has a failed attempt made again by the next run, and a successful one left alone.
    """
    try:
        last = read_json(path) if Path(path).exists() else {}
    except DamagedFileError:
        return -1
    return int(last.get("attempt", 0)) + bool(last.get("failure"))


def outcome(path: str) -> str:
    """What to say of the mirror at the end of a run, by what it left at `path`: where to look, or why it failed."""
    last = read_json(path) if Path(path).exists() else {}
    uri = public(last.get("uri", ""))
    server = [uri, *last.get("views", {}).values()] if uri.startswith("http") else []
    return str(last.get("failure") or "\n          ".join(server) or "make ui")


def mirror(uri: str, configuration: str, runs: "Sequence[Run]") -> Mirrored:
    """Make the store at `uri` hold exactly these runs of this checkout's configuration.

    runs: each after the one that it is nested under. Waits while another mirror is at work. Raises StoreError where the
    store cannot be used, or a model cannot be exported: what was there before is still there, and the next mirror goes
    on from there.
    """
    digests = [run.digest() for run in runs]  # before the store is opened: our own files are not its fault
    with open_store(uri) as store:
        client, owner = store.client, store.owner(configuration)
        experiments = {name: store.experiment(name) for name in dict.fromkeys(run.experiment for run in runs)}
        addresses = views.publish(client, store.site, owner, runs, experiments)
        wanted = {(experiments[run.experiment], digest) for run, digest in zip(runs, digests, strict=True)}
        known: dict[tuple[str, str], MlflowRun] = {}
        everywhere = [experiment.experiment_id for experiment in every(client.search_experiments)]
        before = list(every(client.search_runs, everywhere, f'tags.`{RESULTS}` = "{owner}"'))
        stale: list[MlflowRun] = []
        for stored in before:
            place = stored.info.experiment_id, stored.data.tags[DIGEST]
            if stored.info.status != "FINISHED":  # left by a mirror that was cut off
                client.delete_run(stored.info.run_id)
            elif place in wanted and place not in known:
                known[place] = stored
            else:
                stale.append(stored)
        ids: dict[tuple[str, str], str] = {}
        for run, digest in zip(runs, digests, strict=True):
            parent = ids[run.experiment, run.parent] if run.parent else ""
            there = known.get((experiments[run.experiment], digest))
            if there is None:
                tags = {RESULTS: owner, DIGEST: digest} | ({PARENT: parent} if parent else {})
                ids[run.experiment, run.name] = _write(store, run, experiments[run.experiment], tags)
            else:
                ids[run.experiment, run.name] = there.info.run_id
                if there.data.tags.get(PARENT, "") != parent:
                    client.set_tag(there.info.run_id, PARENT, parent)
        registered = {ids[run.experiment, run.name]: run.registered for run in runs if run.registered}
        models.register(client, (RESULTS, owner), registered)
        for stored in stale:
            client.delete_run(stored.info.run_id)
    pages = [
        f"{store.site}/#/experiments/{experiments[run.experiment]}/runs/{ids[run.experiment, run.name]}" for run in runs
    ]
    counts = {"unchanged": len(known), "created": len(runs) - len(known), "deleted": len(before) - len(known)}
    return Mirrored(counts, pages, addresses)


def _write(store: MlflowStore, run: "Run", experiment: str, tags: Mapping[str, str]) -> str:
    """Add a run. Its id. That it is finished comes last: one that was cut off is not."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

    client, started, ended = store.client, _milliseconds(run.started), _milliseconds(run.ended)
    created = client.create_run(experiment, started, {**run.tags, **SOURCE, **tags}, run.name)
    run_id = created.info.run_id
    for path in run.artifacts:
        client.log_artifact(run_id, path)
    inputs = []
    for samples in run.inputs:
        source, profile = json.dumps({"uri": samples.source}), json.dumps({"num_rows": samples.count})
        dataset = Dataset(samples.name, samples.digest, "local", source, profile=profile)
        inputs.append(DatasetInput(dataset, [InputTag("mlflow.data.context", samples.context)]))
    if inputs:
        client.log_inputs(run_id, inputs)
    if run.model:
        models.log(client, run_id, run.model)
    params = [Param(name, str(value)) for name, value in run.params.items()]
    for start in range(0, len(params), PARAMS):
        client.log_batch(run_id, params=params[start : start + PARAMS])
    measured = ended or created.info.start_time
    metrics = [Metric(name, value, measured, 0) for name, value in run.metrics.items()]
    for name, curve in run.curves.items():
        metrics += [Metric(name, value, measured, epoch) for epoch, value in enumerate(curve, start=1)]
    for start in range(0, len(metrics), METRICS):
        client.log_batch(run_id, metrics=metrics[start : start + METRICS])
    client.set_terminated(run_id, "FINISHED", ended)
    return run_id


def _milliseconds(moment: str | None) -> int | None:
    return round(datetime.fromisoformat(moment).timestamp() * 1000) if moment else None
