"""An MLflow store, which others may use too: how it is opened, and what is whose.

Each run carries the checkout and the configuration that it came from; a `Store` reaches no other runs than its own.
No module but this one, `mlflow_experiments` and `mlflow_models` imports mlflow.
"""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from munkey.experiment.run.job import now
from munkey.experiment.tracking import models
from munkey.experiment.tracking.checkout import project
from munkey.experiment.tracking.experiments import Experiments, every
from munkey.experiment.tracking.tracking import Model, Run, Samples, public
from munkey.experiment.tracking.views import View, key_of, views_of

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric
    from mlflow.entities import Run as MlflowRun
    from mlflow.tracking import MlflowClient

PROJECT, CONFIGURATION, DIGEST = "munkey.project", "munkey.configuration", "munkey.digest"  # tags: whose, and of what
STATE, SINCE = "munkey.state", "munkey.superseded"  # tags: whether the results on disk still say so; since when not
PARENT = "mlflow.parentRunId"  # a tag: under which run MLflow shows it
SOURCE = {"mlflow.source.name": "munkey", "mlflow.source.type": "LOCAL"}  # tags
CURRENT, SUPERSEDED = "current", "superseded"
LOCK = Path(".snakemake/mlflow.lock")  # held by the one mirror that is at work here; an SQLite file has its own
ARTIFACTS = "mlartifacts"  # the folder beside an SQLite file
UI = "http://127.0.0.1:5000"  # where `mlflow ui` listens
WAIT_S = 10  # for a server to answer, and for another process to unlock an SQLite file
TURN_S = 600  # for other mirrors to end
BATCH, PARAMS = 1000, 100  # MLflow's limits of metrics and of parameters in one call
DEFAULTS = {  # of what the user may set in the environment
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(WAIT_S),
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}


class StoreError(RuntimeError):
    """An MLflow store cannot be used. The message says which one, why and what to do."""


class StoredRun(NamedTuple):
    """A run in the store. whole: its mirror was not killed. current: the results on disk say so still, or did so when
    they were last mirrored; since: when they no longer did, or empty. page: its address."""

    id: str
    experiment: str
    name: str
    digest: str
    whole: bool
    current: bool
    since: str
    parent: str
    page: str


class Store:
    """The runs of this checkout's configuration in the store at `uri`. database: its file if it is an SQLite store."""

    def __init__(self, client: "MlflowClient", uri: str, database: Path | None, configuration: str) -> None:
        self.client = client
        self.site = public(uri).rstrip("/") if uri.startswith("http") else UI
        self.experiments = Experiments(client, (database.parent / ARTIFACTS).as_uri() if database else None)
        self.owner = {PROJECT: project(database), CONFIGURATION: configuration}
        self.mine = " and ".join(f"tags.`{tag}` = '{value}'" for tag, value in self.owner.items())

    def runs(self) -> list[StoredRun]:
        """All of them, in any experiment that is not deleted."""
        names = self.experiments.names()
        found = every(lambda token: self.client.search_runs(list(names), self.mine, page_token=token))
        return [self._stored(run, names[run.info.experiment_id]) for run in found]

    def create(self, run: Run, digest: str, parent: str = "") -> StoredRun:
        """Add a run, nested under the one with this id. Its state comes last: one that was cut short has none."""
        from mlflow.entities import Param, RunTag

        started, ended = _milliseconds(run.started), _milliseconds(run.ended)
        tags = {**run.tags, **self.owner, **SOURCE, DIGEST: digest} | ({PARENT: parent} if parent else {})
        experiment_id = self.experiments.id_of(run.experiment)
        created = self.client.create_run(experiment_id, start_time=started, run_name=run.name, tags=tags)
        run_id = created.info.run_id
        for path in run.artifacts:
            self.client.log_artifact(run_id, path)
        if run.inputs:
            self.client.log_inputs(run_id, [_dataset_input(samples) for samples in run.inputs])
        if run.model:
            _log_model(self.client, run_id, run.model)
        params = [Param(name, str(value)) for name, value in run.params.items()]
        for start in range(0, len(params), PARAMS):
            self.client.log_batch(run_id, params=params[start : start + PARAMS])
        metrics = _metrics(run, ended or created.info.start_time)
        for start in range(0, len(metrics), BATCH):
            self.client.log_batch(run_id, metrics=metrics[start : start + BATCH])
        self.client.log_batch(run_id, tags=[RunTag(STATE, CURRENT)])
        self.client.set_terminated(run_id, "FINISHED", end_time=ended)
        return self._stored(self.client.get_run(run_id), run.experiment)

    def nest(self, run: StoredRun, parent: str) -> None:
        """Show a run under the one with the id `parent`."""
        self.client.set_tag(run.id, PARENT, parent)

    def restore(self, run: StoredRun) -> None:
        """Mark a superseded run as current."""
        self.client.delete_tag(run.id, SINCE)
        self.client.set_tag(run.id, STATE, CURRENT)

    def supersede(self, run: StoredRun) -> None:
        """Mark a current run as superseded."""
        self.client.set_tag(run.id, SINCE, now())
        self.client.set_tag(run.id, STATE, SUPERSEDED)

    def delete(self, run: StoredRun) -> None:
        """Delete a run; until `mlflow gc`, MLflow could restore it."""
        self.client.delete_run(run.id)

    def register(self, names: Mapping[str, str]) -> None:
        """Have the registry hold exactly these models as ours. names: by the id of the run that has the model."""
        models.register(self.client, self.owner, names)

    def show(self, runs: Sequence[Run]) -> dict[str, str]:
        """Describe the experiments of these runs, and give them views that compare methods: addresses by name."""
        owner = tuple(self.owner.values())
        views = views_of(runs, owner, f"{self.mine} and tags.`{STATE}` = '{CURRENT}'")
        for name in dict.fromkeys(run.experiment for run in runs):
            self.experiments.describe(name)
        self.experiments.show(views, key_of(owner, ""))
        return {f"{view.experiment}: {view.name}": self._address(view) for view in views}

    def views(self) -> dict[str, str]:
        """The views that all configurations of this checkout have in the store: addresses by name."""
        views = self.experiments.views(key_of([self.owner[PROJECT]], ""))
        return {f"{view.experiment}: {view.name}": self._address(view) for view in views}

    def _address(self, view: View) -> str:
        experiment = self.experiments.id_of(view.experiment)
        return f"{self.site}/#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={view.key}"

    def _stored(self, run: "MlflowRun", experiment: str) -> StoredRun:
        tags = run.data.tags
        return StoredRun(
            id=run.info.run_id,
            experiment=experiment,
            name=run.info.run_name,
            digest=tags[DIGEST],
            whole=run.info.status == "FINISHED" and STATE in tags,
            current=tags.get(STATE) == CURRENT,
            since=tags.get(SINCE, ""),
            parent=tags.get(PARENT, ""),
            page=f"{self.site}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}",
        )


@contextmanager
def opened(uri: str, configuration: str) -> Iterator[Store]:
    """The store at `uri`, while no other mirror is at work on it from this folder, or at all if it is an SQLite file.

    Raises StoreError where the store refuses, does not answer, is locked or is not a store, also in the block.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    from alembic.util import CommandError
    from filelock import FileLock
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient
    from sqlalchemy.exc import SQLAlchemyError

    try:
        database = _database(uri)
        lock = database.with_name(f"{database.name}.lock") if database else LOCK
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=TURN_S):
            if database:
                _require_unlocked(database)
            client = MlflowClient(f"sqlite:///{database}" if database else uri)
            if database:
                _relocate(client, database)
            yield Store(client, uri, database, configuration)
    except (MlflowException, SQLAlchemyError, CommandError, sqlite3.Error, OSError) as error:
        raise StoreError(
            f"The MLflow store at tracking.uri = {public(uri)} cannot be used: {_reason(error)}. All results are on"
            " disk; once the store works, the next run or `make track` shows them there"
        ) from error


def _database(uri: str) -> Path | None:
    """The file of an SQLite store; None for any other store."""
    from sqlalchemy.engine import make_url

    return Path(make_url(uri).database or "").resolve() if uri.startswith("sqlite") else None


def _require_unlocked(database: Path) -> None:
    """Raise sqlite3.Error if the file is not a database, or another process keeps it locked."""
    with closing(sqlite3.connect(database, timeout=WAIT_S, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _relocate(client: "MlflowClient", database: Path) -> None:
    """Have the artifacts of our experiments lie beside the file, wherever it came from.

    MLflow keeps absolute paths, and has no call that changes them: those of a copied file would lead into the folder
    that it was copied from. Runs whose artifacts did not come along keep theirs.
    """
    from mlflow.entities import ViewType

    folder = database.parent / ARTIFACTS
    for experiment in every(lambda token: client.search_experiments(ViewType.ALL, page_token=token)):
        number, name, before = experiment.experiment_id, experiment.name, experiment.artifact_location
        here = f"{folder.as_uri()}/{name}"
        if before != here and before.endswith(f"/{ARTIFACTS}/{name}"):
            with closing(sqlite3.connect(database, timeout=WAIT_S)) as connection, connection:
                change = "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?"
                connection.execute(change, (here, number))
                if (folder / name).is_dir():
                    change = "UPDATE runs SET artifact_uri = replace(artifact_uri, ?, ?) WHERE experiment_id = ?"
                    connection.execute(change, (before, here, number))


def _reason(error: BaseException) -> str:
    """Why a store cannot be used, in one line: what the system or SQLite said, which libraries wrap several times."""
    cause: BaseException | None = error
    while cause:
        error = cause if isinstance(cause, OSError | sqlite3.Error) else error
        cause = cause.__cause__ or cause.__context__
    if type(error) is TimeoutError:  # not a lock's
        return f"it did not answer in time ({WAIT_S} s unless MLFLOW_HTTP_REQUEST_TIMEOUT says otherwise)"
    return " ".join(str(error).split())[:300]


def _log_model(client: "MlflowClient", run_id: str, model: Model) -> None:
    try:
        models.log(client, run_id, model)
    except models.ModelError as error:
        raise StoreError(f"{error}: all other runs are there; `tracking.models: false` leaves models out") from error


def _dataset_input(samples: Samples) -> "DatasetInput":
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = json.dumps({"uri": samples.source}), json.dumps({"num_rows": samples.count})
    dataset = Dataset(samples.name, samples.digest, "local", source, profile=profile)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", samples.context)])


def _metrics(run: Run, stamp: int) -> "list[Metric]":
    """Its metrics, and its curves by epoch. stamp: when they were measured [ms]."""
    from mlflow.entities import Metric

    values = [Metric(name, value, stamp, 0) for name, value in run.metrics.items()]
    for name, curve in run.curves.items():
        values += [Metric(name, value, stamp, epoch) for epoch, value in enumerate(curve, start=1)]
    return values


def _milliseconds(moment: str | None) -> int | None:
    return round(datetime.fromisoformat(moment).timestamp() * 1000) if moment else None
