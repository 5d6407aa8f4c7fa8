"""The registry: one version of each present model, and never anything of others."""

import pytest
from mlflow.tracking import MlflowClient

from munkey.experiment.tracking.mirror import mirror
from munkey.experiment.tracking.models import register
from munkey.experiment.tracking.runs import NOTE, Run
from munkey.experiment.tracking.views import RESULTS

URI = "sqlite:///mlflow.db"


@pytest.fixture
def client(checkout):
    return MlflowClient(f"sqlite:///{checkout}/mlflow.db")


def model(name, accuracy=1.0):
    """A run as if it had a model, without one to export."""
    return Run(
        "digits", name, {}, {"TA": accuracy}, {NOTE: "words", "seed": "0", "other": "no"}, registered=f"m-{name}"
    )


def registered(client):
    """What the registry holds: the name of each version, and what its run measured. No name is without a version."""
    versions = client.search_model_versions()
    assert {model.name for model in client.search_registered_models()} == {version.name for version in versions}
    return sorted((version.name, client.get_run(version.run_id).data.metrics["TA"]) for version in versions)


def test_the_registry_holds_one_version_of_each_present_model_however_often_it_is_mirrored(client):
    for accuracy in (1.0, 1.0, 2.0):
        mirror(URI, "default", [model("a", accuracy), model("b")])
        assert registered(client) == [("m-a", accuracy), ("m-b", 1.0)]
    mirror(URI, "small", [model("a", 4.0)])
    assert registered(client) == [("m-a", 2.0), ("m-a", 4.0), ("m-b", 1.0)]
    mirror(URI, "default", [])
    assert registered(client) == [("m-a", 4.0)]


def test_a_version_says_what_it_is_and_finds_its_model_from_wherever_the_store_is(client):
    mirror(URI, "default", [model("a")])
    (version,) = client.search_model_versions()
    assert version.source == f"runs:/{version.run_id}/model" and version.description == "words"
    assert version.tags == {"seed": "0", RESULTS: "results/default"}


def test_a_model_of_another_name_takes_the_place_of_the_one_before(client):
    mirror(URI, "default", [model("a")])
    (version,) = client.search_model_versions()
    register(client, (RESULTS, "results/default"), {version.run_id: "m-other"})
    assert registered(client) == [("m-other", 1.0)]


def test_a_model_that_somebody_registered_under_our_name_stays(client):
    client.create_registered_model("m-a")
    theirs = client.create_model_version("m-a", "file:///theirs")
    mirror(URI, "default", [model("a")])
    assert len(client.search_model_versions()) == 2
    mirror(URI, "default", [])
    assert [version.version for version in client.search_model_versions()] == [theirs.version]
