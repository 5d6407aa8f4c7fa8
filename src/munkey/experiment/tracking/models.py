"""Models in an MLflow store: a MUNKEY is exported, logged with its run, and registered as long as that run stands.

A registered model has at most one version of each folder of results: the registry offers what the results on disk are,
and does not grow.
"""

import importlib.metadata
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.experiment.tracking.store import StoreError, every

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from munkey.experiment.tracking.runs import Model

MEMORY, HEAD = "munkey.memory", "munkey.head"  # tags of a model: its memory's name, and the head of its chain
VERSION_TAGS = (MEMORY, HEAD, "dataset", "rate", "seed", "method")  # tags of a run that its model's version has too


def log(client: "MlflowClient", run_id: str, model: "Model") -> None:
    """Export a model and log it as `model`: for MLflow a directory, and the name of the module that reads it.

    Raises StoreError where it cannot be exported here.
    """
    from mlflow import pyfunc
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
            raise StoreError(
                f"{model.system} cannot be logged as a model ({error}): all other runs are in MLflow;"
                " `tracking.models: false` leaves models out"
            ) from error
        with Predictor.load(directory) as predictor:
            client.set_tag(run_id, MEMORY, predictor.manifest.memory.store)
            client.set_tag(run_id, HEAD, predictor.head)
        pyfunc.save_model(
            Path(folder) / "logged" / "model",
            loader_module="munkey.deploy.mlflow_model",
            data_path=str(directory),
            signature=ModelSignature(inputs=Schema([ColSpec(DataType.binary, COLUMN)])),
            pip_requirements=[f"munkey=={importlib.metadata.version('munkey')}"],
        )
        client.log_artifacts(run_id, str(Path(folder) / "logged"))


def register(client: "MlflowClient", owner: tuple[str, str], wanted: Mapping[str, str]) -> None:
    """Have the registry hold exactly these models of an owner, each as a version of its name.

    owner: the tag of what is ours, and its value; wanted: names by the id of the run that logged the model. The address
    of a version is relative to its run, so that a store that was moved still finds it. New versions are added before
    others are deleted.
    """
    before = list(every(client.search_model_versions, f'tags.`{owner[0]}` = "{owner[1]}"'))
    there = {version.run_id for version in before if wanted.get(version.run_id or "") == version.name}
    for run_id, name in wanted.items():
        if run_id not in there:
            _add(client, owner, run_id, name)
    for version in before:
        if wanted.get(version.run_id or "") != version.name:
            client.delete_model_version(version.name, version.version)
            if not client.search_model_versions(f"name = '{version.name}'"):
                client.delete_registered_model(version.name)


def _add(client: "MlflowClient", owner: tuple[str, str], run_id: str, name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    run = client.get_run(run_id)
    tags = {tag: run.data.tags[tag] for tag in VERSION_TAGS if tag in run.data.tags} | dict([owner])
    note = run.data.tags.get("mlflow.note.content")
    client.create_model_version(name, f"runs:/{run_id}/model", run_id, tags, description=note, await_creation_for=0)
