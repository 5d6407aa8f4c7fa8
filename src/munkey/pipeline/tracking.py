"""The mirror of all results in MLflow. No other module imports mlflow.

JSON, CSV and NPZ files on disk are the truth. Mirroring is idempotent: a run that has not changed stays as it is, one
that has changed is replaced, one whose result is gone is removed. A store that was deleted is filled again.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from munkey.core.files import read_bytes, read_json, read_table
from munkey.evaluation.records import Evaluation
from munkey.pipeline.layout import Layout, fill

if TYPE_CHECKING:
    from mlflow.entities import Run as StoredRun
    from mlflow.tracking import MlflowClient

KEY, DIGEST = "munkey.key", "munkey.digest"  # tags: the name of a mirrored run, and the digest of what it shows
LOCK = Path(".snakemake/mlflow.lock")  # of the mirrors of one folder, one works at a time
UI = "http://127.0.0.1:5000"  # where `mlflow ui` listens
BATCH = 1000  # MLflow's limit of metrics in one call
CURVES = ("loss", "accuracy", "lr")


@dataclass(frozen=True)
class Run:
    """What one MLflow run shows. curves: one value per epoch, from epoch 1; artifacts: file paths; times: ISO 8601."""

    experiment: str
    name: str
    params: Mapping[str, object]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    curves: Mapping[str, list[float]] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    started: str | None = None
    ended: str | None = None

    def digest(self) -> str:
        """A hash of everything it shows, artifacts included."""
        files = [hashlib.sha256(read_bytes(path)).hexdigest() for path in self.artifacts]
        text = json.dumps([asdict(self), files], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


class Address(NamedTuple):
    """Where a run is shown."""

    name: str
    url: str


def runs_of(
    evaluations: Iterable[Evaluation], searches: Mapping[str, Evaluation], titles: Mapping[str, str], layout: Layout
) -> list[Run]:
    """All runs to mirror: one per evaluation, one per candidate of a search, and the tables of each data set.

    searches: by the path of search.json, the evaluation that it chose the settings for; titles: by system; layout: of
    the configuration.
    """
    candidates = [run for path, evaluation in searches.items() for run in _candidates(Path(path), evaluation, titles)]
    return [*_evaluated(evaluations, titles, layout.all_metrics), *candidates, *_tables(layout)]


def _evaluated(evaluations: Iterable[Evaluation], titles: Mapping[str, str], metrics_file: str) -> Iterator[Run]:
    metrics = read_table(metrics_file).astype({"rate": str, "seed": str})
    groups = metrics.groupby(["dataset", "rate", "seed", "method"])
    for evaluation in evaluations:
        names = _names(evaluation)
        values = groups.get_group(tuple(names.values())).set_index("metric")["value"]
        record, training = read_json(evaluation.record), read_json(evaluation.training)
        curves = _curves("train", training)
        if evaluation.record != evaluation.training:
            curves |= _curves("unlearn", record)
        yield Run(
            experiment=evaluation.dataset,
            name=_title(evaluation, titles),
            params=names | flat(record["settings"]) | flat({"facts": record.get("facts", {})}),
            metrics={str(metric): float(value) for metric, value in values.items()},
            tags=names | {"kind": "run"} | {name: str(value) for name, value in flat(record["provenance"]).items()},
            curves=curves,
            artifacts=(evaluation.record, evaluation.forget),
            started=record["started"],
            ended=record["ended"],
        )


def _candidates(search: Path, evaluation: Evaluation, titles: Mapping[str, str]) -> Iterator[Run]:
    """The runs of a search: what each candidate of the settings led to, and which one was chosen."""
    result, names = read_json(search), _names(evaluation)
    for number, candidate in enumerate(result["candidates"]):
        path = search.parent / str(number) / "record.json"
        record = read_json(path)
        yield Run(
            experiment=evaluation.dataset,
            name=f"{_title(evaluation, titles)} candidate {number}",
            params=names | flat(candidate["settings"]),
            metrics={metric: value for metric, value in candidate.items() if metric != "settings"},
            tags=names | {"kind": "candidate", "chosen": str(number == result["chosen"]).lower()},
            curves=_curves("unlearn", record),
            artifacts=(str(path),),
            started=record["started"],
            ended=record["ended"],
        )


def _tables(layout: Layout) -> Iterator[Run]:
    """For each data set, the tables and the gaps that the main table shows."""
    shown = (("main", "csv"), ("main", "md"), ("runtime", "md"))
    tables = tuple(fill(layout.table, table=table, ending=ending) for table, ending in shown)
    for dataset, part in read_table(tables[0]).groupby("dataset"):
        rows = part[part["gap_mean"].notna()]
        gaps = zip(rows["method"], rows["rate"], rows["gap_mean"], strict=True)
        yield Run(
            experiment=str(dataset),
            name="Tables",
            params={"n_seeds": int(part["n"].min())},
            metrics={f"gap/{method}/rate{rate:g}": float(gap) for method, rate, gap in gaps},
            tags={"dataset": str(dataset), "kind": "table"},
            artifacts=(*tables, layout.all_metrics),
        )


def _names(evaluation: Evaluation) -> dict[str, str]:
    return {name: str(getattr(evaluation, name)) for name in ("dataset", "rate", "seed", "method")}


def _title(evaluation: Evaluation, titles: Mapping[str, str]) -> str:
    return f"{titles[evaluation.method]} @{evaluation.rate} seed {evaluation.seed}"


def _curves(stage: str, record: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, list[float]]:
    return {f"{stage}/{curve}": [epoch[curve] for epoch in record["history"]] for curve in CURVES}


def flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested settings by dotted names: {"train": {"lr": 1}} becomes {"train.lr": 1}."""
    flattened: dict[str, object] = {}
    for name, value in settings.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flattened


def mirror(uri: str, runs: Iterable[Run]) -> dict[str, int]:
    """Make the store at `uri` show exactly these runs in their experiments; runs made by others are left alone.

    Waits while another mirror is at work in this folder. Returns how many runs were kept, created, replaced and
    removed. Raises ConnectionError if a tracking server does not answer.
    """
    from filelock import FileLock

    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    counts = Counter({"kept": 0, "created": 0, "replaced": 0, "removed": 0})
    by_experiment: dict[str, list[Run]] = {}
    for run in runs:
        by_experiment.setdefault(run.experiment, []).append(run)
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(LOCK):
        client = MlflowClient(uri)
        try:
            for experiment, wanted in by_experiment.items():
                counts.update(_mirror_experiment(client, _experiment_id(client, experiment, uri), wanted))
        except MlflowException as error:
            if "://" in uri and not uri.startswith("sqlite"):
                raise ConnectionError(
                    f"the tracking server at tracking.uri = {uri} failed: {error}. All results are on disk; start the"
                    " server, or set tracking.uri: sqlite:///mlflow.db, and run again"
                ) from error
            raise
    return dict(counts)


def listed(uri: str, runs: Iterable[Run]) -> dict[str, object]:
    """What was mirrored, for the file that stands for it: the store, and each run's name and digest."""
    shown = [{"key": run.name, "experiment": run.experiment, "digest": run.digest()} for run in runs]
    return {"uri": uri, "runs": shown}


def addresses(uri: str, experiments: Iterable[str]) -> list[Address]:
    """The page of every mirrored run; in the UI on this machine unless the store is a tracking server."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri)
    site = uri.rstrip("/") if uri.startswith("http") else UI
    pages: list[Address] = []
    for name in experiments:
        experiment = client.get_experiment_by_name(name)
        stored = _stored_runs(client, experiment.experiment_id) if experiment else {}
        for key, (run, *_) in sorted(stored.items()):
            url = f"{site}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
            pages.append(Address(f"{name}: {key}", url))
    return pages


def _mirror_experiment(client: "MlflowClient", experiment_id: str, wanted: list[Run]) -> Counter[str]:
    """Make an experiment show these runs. Returns how many were kept, created, replaced and removed."""
    counts: Counter[str] = Counter()
    stored = _stored_runs(client, experiment_id)
    for run in wanted:
        digest = run.digest()
        earlier = stored.pop(run.name, [])
        if len(earlier) == 1 and earlier[0].data.tags.get(DIGEST) == digest and earlier[0].info.status == "FINISHED":
            counts["kept"] += 1
            continue
        for stale in earlier:
            client.delete_run(stale.info.run_id)
        _create(client, experiment_id, run, digest)
        counts["replaced" if earlier else "created"] += 1
    for stale in (run for vanished in stored.values() for run in vanished):
        client.delete_run(stale.info.run_id)
        counts["removed"] += 1
    return counts


def _experiment_id(client: "MlflowClient", name: str, uri: str) -> str:
    """The id of an experiment, which is created, or restored if it was deleted."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        local = Path("mlartifacts").absolute().as_uri() if uri.startswith("sqlite") else None
        return client.create_experiment(name, artifact_location=local and f"{local}/{name}")
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _stored_runs(client: "MlflowClient", experiment_id: str) -> "dict[str, list[StoredRun]]":
    """The mirrored runs of an experiment by name; more than one per name if an earlier mirror was killed."""
    stored: dict[str, list[StoredRun]] = {}
    token = None
    while True:
        page = client.search_runs([experiment_id], filter_string=f"tags.`{KEY}` != ''", page_token=token)
        for run in page:
            stored.setdefault(run.data.tags[KEY], []).append(run)
        token = page.token
        if not token:
            return stored


def _create(client: "MlflowClient", experiment_id: str, run: Run, digest: str) -> None:
    from mlflow.entities import Metric, Param, RunTag

    started, ended = _milliseconds(run.started), _milliseconds(run.ended)
    tags = {**run.tags, KEY: run.name, DIGEST: digest}
    created = client.create_run(experiment_id, start_time=started, run_name=run.name, tags=tags)
    run_id = created.info.run_id
    stamp = ended or created.info.start_time
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
