"""Models in an MLflow store: a MUNKEY is exported, logged with a run, and registered while that run is current.

A registered model has at most one version of each checkout and configuration. That of a run which was superseded is
deleted, and a name without versions too: the registry offers what the results on disk are, and does not grow.
"""

import importlib.metadata
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.experiment.tracking.experiments import every
from munkey.experiment.tracking.tracking import Model

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

MEMORY, HEAD = "munkey.memory", "munkey.head"  # tags of a model: its memory's name, and the head of its chain
SHOWN = (MEMORY, HEAD, "dataset", "rate", "seed", "method")  # tags of a run that its model's version has too
NOTE = "mlflow.note.content"


class ModelError(RuntimeError):
    """A model cannot be exported here; the message says why."""


def log(client: "MlflowClient", run_id: str, model: Model) -> None:
    """Export a model and log it as `model`: for MLflow a directory, and the name of the module that reads it.

    Raises ModelError.
    """
    from mlflow import pyfunc
    from mlflow.entities import RunTag
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    from munkey.deploy.errors import ExportError
    from munkey.deploy.mlflow_model import COLUMN
    from munkey.deploy.model.export import export
    from munkey.deploy.model.predictor import Predictor
    from munkey.encoders.registry import MissingEncoderError

    with tempfile.TemporaryDirectory() as folder:
        try:
            directory = export(model.system, Path(folder) / "exported", model.sections)
        except (ExportError, MissingEncoderError) as error:
            raise ModelError(f"{model.system} cannot be logged as a model ({error})") from error
        with Predictor.load(directory) as predictor:
            tags = {MEMORY: predictor.manifest.memory.store, HEAD: predictor.head}
        pyfunc.save_model(
            Path(folder) / "logged" / "model",
            loader_module="munkey.deploy.mlflow_model",
            data_path=str(directory),
            signature=ModelSignature(inputs=Schema([ColSpec(DataType.binary, COLUMN)])),
            pip_requirements=[f"munkey=={importlib.metadata.version('munkey')}"],
        )
        client.log_artifacts(run_id, str(Path(folder) / "logged"))
    client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])


def register(client: "MlflowClient", owner: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Have the registry hold exactly these models of an owner, each as a version of its name.

    owner: tags of what is ours; wanted: names by the id of the run that logged the model.
    """
    ours = " and ".join(f"tags.`{tag}` = '{value}'" for tag, value in owner.items())
    there = {version.run_id or "": version for version in _versions(client, ours)}
    for run_id, version in there.items():
        if wanted.get(run_id) != version.name:
            _remove(client, version)
    for run_id, name in wanted.items():
        if run_id not in there or there[run_id].name != name:
            _add(client, owner, run_id, name)


def _add(client: "MlflowClient", owner: Mapping[str, str], run_id: str, name: str) -> None:
    """Its address is relative to the run, so that a store that was moved still finds it."""
    run = client.get_run(run_id)
    tags = {tag: run.data.tags[tag] for tag in SHOWN if tag in run.data.tags}
    if not _versions(client, f"name = '{name}'"):
        _create(client, name)
    client.create_model_version(
        name, f"runs:/{run_id}/model", run_id, {**tags, **owner}, description=run.data.tags[NOTE], await_creation_for=0
    )


def _create(client: "MlflowClient", name: str) -> None:
    """Make a registered model, unless another mirror just did, or one without versions was left."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _remove(client: "MlflowClient", version: "ModelVersion") -> None:
    client.delete_model_version(version.name, version.version)
    if not _versions(client, f"name = '{version.name}'"):
        client.delete_registered_model(version.name)


def _versions(client: "MlflowClient", condition: str) -> "list[ModelVersion]":
    """All versions that a condition finds."""
    return list(every(lambda token: client.search_model_versions(condition, page_token=token)))
