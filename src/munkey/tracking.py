"""MLflow shows what stands on disk: one process mirrors all records into the store. The only module with mlflow.

JSON, CSV and NPZ on disk are the truth. The mirror is idempotent: an unchanged record is left alone, a changed one is
replaced, a vanished one removed; a deleted store is made anew.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

KEY, DIGEST = "munkey.key", "munkey.digest"
LOCK = ".mlflow.lock"
UI = "http://127.0.0.1:5000"  # where `mlflow ui` listens
BATCH = 1000  # metrics a call, MLflow's limit


@dataclass(frozen=True)
class Run:
    """What one MLflow run shows. curves: by name, one value an epoch from 1; artifacts: file paths; times: ISO 8601."""

    experiment: str
    name: str
    params: Mapping[str, Any]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    curves: Mapping[str, list[float]] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    started: str | None = None
    ended: str | None = None

    def digest(self) -> str:
        files = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in self.artifacts]
        text = json.dumps([asdict(self), files], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def mirror(uri: str, runs: Iterable[Run]) -> dict[str, int]:
    """Make the store at `uri` show exactly these runs in their experiments.

    Only runs made here are touched. Waits its turn where another mirror is at work. Returns how many were kept,
    created, replaced and removed. Raises ConnectionError where a tracking server does not answer.
    """
    from filelock import FileLock

    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    counts = {"kept": 0, "created": 0, "replaced": 0, "removed": 0}
    by_experiment: dict[str, list[Run]] = {}
    for run in runs:
        by_experiment.setdefault(run.experiment, []).append(run)
    with FileLock(LOCK):
        client = MlflowClient(uri)
        try:
            for experiment, wanted in by_experiment.items():
                _mirror_experiment(client, _experiment_id(client, experiment, uri), wanted, counts)
        except MlflowException as error:
            if "://" in uri and not uri.startswith("sqlite"):
                raise ConnectionError(
                    f"the tracking server at tracking.uri = {uri} does not do its part: {error}. Results on disk are"
                    " complete; start the server, or set tracking.uri: sqlite:///mlflow.db, and run again"
                ) from error
            raise
    return counts


def addresses(uri: str, experiments: Iterable[str]) -> list[tuple[str, str]]:
    """Name and page of every run made here; on the UI of this machine where the store is not a server's."""
    from mlflow.tracking import MlflowClient

    client, found = MlflowClient(uri), []
    site = uri.rstrip("/") if uri.startswith("http") else UI
    for name in experiments:
        experiment = client.get_experiment_by_name(name)
        if experiment is None:
            continue
        present = _present(client, experiment.experiment_id)
        for key, (run, *_) in sorted(present.items()):
            address = f"{site}/#/experiments/{experiment.experiment_id}/runs/{run.info.run_id}"
            found.append((f"{name}: {key}", address))
    return found


def _mirror_experiment(client: Any, experiment_id: str, wanted: list[Run], counts: dict[str, int]) -> None:
    present = _present(client, experiment_id)
    for run in wanted:
        digest = run.digest()
        old = present.pop(run.name, [])
        if len(old) == 1 and old[0].data.tags.get(DIGEST) == digest and old[0].info.status == "FINISHED":
            counts["kept"] += 1
            continue
        for stale in old:
            client.delete_run(stale.info.run_id)
        _create(client, experiment_id, run, digest)
        counts["replaced" if old else "created"] += 1
    for vanished in present.values():
        for stale in vanished:
            client.delete_run(stale.info.run_id)
            counts["removed"] += 1


def _experiment_id(client: Any, name: str, uri: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        local = Path("mlartifacts").absolute().as_uri() if uri.startswith("sqlite") else None
        return client.create_experiment(name, artifact_location=local and f"{local}/{name}")
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def _present(client: Any, experiment_id: str) -> dict[str, list[Any]]:
    """The runs made here, by key; more than one where an earlier mirror was killed between two steps."""
    found: dict[str, list[Any]] = {}
    token = None
    while True:
        page = client.search_runs([experiment_id], filter_string=f"tags.`{KEY}` != ''", page_token=token)
        for run in page:
            found.setdefault(run.data.tags[KEY], []).append(run)
        token = page.token
        if not token:
            return found


def _create(client: Any, experiment_id: str, run: Run, digest: str) -> None:
    from mlflow.entities import Metric, Param, RunTag

    started, ended = _milliseconds(run.started), _milliseconds(run.ended)
    tags = {**run.tags, KEY: run.name, DIGEST: digest}
    made = client.create_run(experiment_id, start_time=started, run_name=run.name, tags=tags)
    run_id = made.info.run_id
    stamp = ended or made.info.start_time
    metrics = [Metric(name, value, stamp, 0) for name, value in run.metrics.items()]
    for name, values in run.curves.items():
        metrics += [Metric(name, value, stamp, epoch) for epoch, value in enumerate(values, start=1)]
    params = [Param(name, str(value)) for name, value in run.params.items()]
    client.log_batch(run_id, params=params[:100], tags=[RunTag("mlflow.source.name", "munkey")])
    for start in range(0, len(metrics), BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + BATCH])
    for path in run.artifacts:
        client.log_artifact(run_id, path)
    client.set_terminated(run_id, "FINISHED", end_time=ended)


def _milliseconds(moment: str | None) -> int | None:
    return round(datetime.fromisoformat(moment).timestamp() * 1000) if moment else None


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted names: {"train": {"lr": 1}} -> {"train.lr": 1}."""
    out: dict[str, Any] = {}
    for name, value in settings.items():
        out |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return out
