"""An exported model in MLflow: it answers as `mlflow models serve` asks, with no pickle in it."""

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException
from mlflow.pyfunc import scoring_server
from mlflow.tracking import MlflowClient

from munkey.deploy.mlflow_model import _load_pyfunc
from munkey.deploy.model.predictor import Predictor
from munkey.evaluation.records import Evaluation
from munkey.experiment.tracking.mirror import mirror
from munkey.experiment.tracking.runs import Model, Run, model_run
from munkey.experiment.tracking.store import StoreError
from tests.deploy.inputs import picture_in, result_in, sections

URI = "sqlite:///mlflow.db"


def run_of(result: Path) -> Run:
    """The run that shows a tiny trained MUNKEY."""
    record = str(result / "record.json")
    shown = Evaluation("toy", "", "0.1", 0, "original-m", logits="", record=record, training=record, forget="")
    model = Model(str(result / "system.safetensors"), shown, sections())
    return replace(model_run(model, {"original-m": "Original (M)"}, "tiny"), parent="")


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose store holds a model; the folder of its artifacts is `mlartifacts`."""
    checkout = tmp_path_factory.mktemp("mlflow")
    result = result_in(checkout / "results" / "tiny")
    before = Path.cwd()
    os.chdir(checkout)
    try:
        assert mirror(URI, "default", [run_of(result)]).counts["created"] == 1
        yield checkout
    finally:
        os.chdir(before)


def stored_in(checkout: Path) -> list:
    client = MlflowClient(f"sqlite:///{checkout}/mlflow.db")
    return client.search_runs([client.get_experiment_by_name("toy").experiment_id])


def logged_folder(checkout: Path) -> Path:
    (found,) = checkout.glob("mlartifacts/**/MLmodel")
    return found.parent


def directory_in(folder: Path) -> Path:
    """The exported model in what MLflow keeps."""
    (manifest,) = folder.rglob("manifest.json")
    return manifest.parent


def trained_in(checkout: Path) -> Path:
    return checkout / "results/tiny/models/toy/seed0/full/original-m"


def test_the_head_of_the_chain_is_a_tag(logged):
    (run,) = stored_in(logged)
    tags = run.data.tags
    with Predictor.load(directory_in(logged_folder(logged))) as predictor:
        assert (tags["munkey.head"], tags["munkey.memory"]) == (predictor.head, predictor.manifest.memory.store)
    assert (tags["kind"], tags["method"]) == ("model", "original-m") and "rate" not in tags
    assert run.info.run_name == "Model of Original (M) seed 0"


def test_it_is_logged_only_once(logged):
    assert mirror(URI, "default", [run_of(trained_in(logged))]).counts["unchanged"] == 1


def test_one_that_cannot_be_exported_says_so_and_all_else_is_there(logged, tmp_path, monkeypatch):
    result = trained_in(logged)
    run = run_of(result)
    (keyfile,) = logged.glob("results/tiny/keys/toy/*/keys.npz")
    other = Run("toy", "another", {}, {}, {})
    monkeypatch.chdir(tmp_path)
    keyfile.rename(keyfile.with_name("moved"))
    with pytest.raises(StoreError, match=r"cannot be logged as a model .*tracking\.models: false"):
        mirror(URI, "default", [other, run])
    assert [run.info.run_name for run in stored_in(tmp_path) if run.info.status == "FINISHED"] == ["another"]
    keyfile.with_name("moved").rename(keyfile)
    assert mirror(URI, "default", [other, run]).counts == {"unchanged": 1, "created": 1, "deleted": 1}


def test_what_is_no_picture_is_refused_in_a_sentence_of_mlflows(logged, tmp_path):
    """MLflow's server answers any other error with a traceback."""
    model = _load_pyfunc(str(directory_in(logged_folder(logged))))
    whole = picture_in(tmp_path).read_bytes()
    for content in (b"no picture", whole[:100]):
        with pytest.raises(MlflowException, match="cannot be read as a picture") as raised:
            model.predict(pd.DataFrame({"image": [whole, content]}))
        assert raised.value.error_code == "INVALID_PARAMETER_VALUE"


def test_nothing_in_it_is_a_pickle(logged):
    names = [path.name for path in logged_folder(logged).rglob("*") if path.is_file()]
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".pt", ".pth", ".py"))]
    assert "loader_module: munkey.deploy.mlflow_model" in (logged_folder(logged) / "MLmodel").read_text()


def test_mlflow_answers_with_it_as_its_server_does(logged, tmp_path):
    """By what `mlflow models serve` calls for each request."""
    picture = picture_in(tmp_path)
    content = base64.b64encode(picture.read_bytes()).decode()
    question = json.dumps({"dataframe_split": {"columns": ["image"], "data": [[content]]}})
    model = mlflow.pyfunc.load_model(str(logged_folder(logged)))
    answer = scoring_server.invocations(question, "application/json", model, model.metadata.get_input_schema())
    with Predictor.load(directory_in(logged_folder(logged))) as predictor:
        expected = predictor.predict(picture)
    (said,) = json.loads(answer.response)["predictions"]
    assert answer.status == 200 and said["class"] == expected.classes[0]
    assert said["probabilities"] == pytest.approx(expected.probabilities[0].tolist(), rel=1e-4)
