"""The mirror in a store that others use: complete, idempotent, and never at the cost of anything that was there."""

import shutil

import pytest
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from munkey.cli.ui import addresses
from munkey.core.files import write_text
from munkey.experiment.tracking import models as mlflow_models
from munkey.experiment.tracking.mirror import mirror, record
from munkey.experiment.tracking.store import StoreError, opened
from munkey.experiment.tracking.tracking import Run, Samples

URI = "sqlite:///mlflow.db"
CURRENT = "tags.`munkey.state` = 'current'"


def run(name, accuracy=1.0, experiment="digits", **contents):
    return Run(experiment, name, {"p": 1}, {"TA": accuracy}, {"seed": "0"}, **contents)


def counts(kept=0, created=0, restored=0, superseded=0):
    return {"kept": kept, "created": created, "restored": restored, "superseded": superseded}


def stored(folder, condition="", deleted=False):
    """The runs in a store, by name: for each its accuracies."""
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    view = ViewType.DELETED_ONLY if deleted else ViewType.ACTIVE_ONLY
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()], condition, run_view_type=view)
    named = sorted((found.info.run_name, found.data.metrics.get("TA")) for found in runs)
    return {name: [accuracy for other, accuracy in named if other == name] for name, _ in named}


def test_what_is_unchanged_is_kept_and_what_changed_or_vanished_stays_as_superseded(checkout):
    assert mirror(URI, "default", [run("a"), run("b", 2.0)]).counts == counts(created=2)
    first = mirror(URI, "default", [run("a"), run("b", 2.0)])
    assert first.counts == counts(kept=2)
    second = mirror(URI, "default", [run("a"), run("b", 3.0)])
    assert second.counts == counts(kept=1, created=1, superseded=1)
    assert second.pages[0] == first.pages[0] and second.pages[1] != first.pages[1]
    assert mirror(URI, "default", [run("a", experiment="other")]).counts == counts(created=1, superseded=2)
    assert stored(checkout) == {"a": [1.0, 1.0], "b": [2.0, 3.0]}
    assert stored(checkout, CURRENT) == {"a": [1.0]}
    assert stored(checkout, "tags.`munkey.superseded` LIKE '20%T%'") == {"a": [1.0], "b": [2.0, 3.0]}


def test_a_result_that_is_back_is_current_again(checkout):
    before = mirror(URI, "default", [run("a")])
    mirror(URI, "default", [run("a", 2.0)])
    back = mirror(URI, "default", [run("a")])
    assert (back.counts, back.pages) == (counts(restored=1, superseded=1), before.pages)
    assert stored(checkout, CURRENT) == {"a": [1.0]}
    assert stored(checkout, "tags.`munkey.superseded` != ''") == {"a": [2.0]}


def parents(folder):
    """By the name of a current run and what it measured, the one that it is nested under."""
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()], CURRENT)
    names = {each.info.run_id: (each.info.run_name, each.data.metrics["TA"]) for each in runs}
    return {names[each.info.run_id]: names.get(each.data.tags.get("mlflow.parentRunId")) for each in runs}


def test_a_run_that_is_kept_is_nested_under_the_new_one_of_its_parent(checkout):
    def runs(mean, second):
        return [run("mean", mean), run("one", parent="mean"), run("two", second, parent="mean")]

    mirror(URI, "default", runs(1.0, 1.0))
    assert parents(checkout) == {("mean", 1.0): None, ("one", 1.0): ("mean", 1.0), ("two", 1.0): ("mean", 1.0)}
    assert mirror(URI, "default", runs(2.0, 3.0)).counts == counts(kept=1, created=2, superseded=2)
    assert parents(checkout) == {("mean", 2.0): None, ("one", 1.0): ("mean", 2.0), ("two", 3.0): ("mean", 2.0)}
    assert mirror(URI, "default", runs(2.0, 3.0)).counts == counts(kept=3)


def test_the_samples_of_a_run_are_its_inputs(checkout):
    mirror(URI, "default", [run("a", inputs=(Samples("digits", "training", "results/digits", "abc", 7),))])
    client = MlflowClient(f"sqlite:///{checkout}/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    (given,) = found.inputs.dataset_inputs
    assert (given.dataset.name, given.dataset.digest, given.dataset.profile) == ("digits", "abc", '{"num_rows": 7}')
    assert [(tag.key, tag.value) for tag in given.tags] == [("mlflow.data.context", "training")]


def methods(rate, gap=1.0):
    tags = {"kind": "method", "method": "cf", "rate": rate}
    return Run("digits", f"CF @{rate}", {}, {"gap": gap}, tags)


def keys(folder):
    experiment = MlflowClient(f"sqlite:///{folder}/mlflow.db").get_experiment_by_name("digits")
    return [tag.rpartition("munkey/local/")[2] for tag in sorted(experiment.tags) if "sharedViewState" in tag]


def test_an_experiment_has_a_note_and_the_views_of_the_rates_that_there_are(checkout):
    mirrored = mirror(URI, "default", [methods("0.1"), methods("0.02")])
    mirror(URI, "default-overlay", [methods("0.5")])
    assert keys(checkout) == ["default-overlay/rate0.5", "default/rate0.02", "default/rate0.1"]
    address = "http://127.0.0.1:5000/#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=munkey/local"
    assert mirrored.views["digits: Methods by gap, 10 % forgotten"] == f"{address}/default/rate0.1"
    assert [line.split("  ")[0] for line in addresses(URI)[1:]] == [f"{address}/{key}" for key in keys(checkout)]
    mirror(URI, "default", [methods("0.1")])
    assert keys(checkout) == ["default-overlay/rate0.5", "default/rate0.1"]


def test_a_note_that_somebody_wrote_stays(checkout):
    client = MlflowClient(f"sqlite:///{checkout}/mlflow.db")
    mirror(URI, "default", [run("a")])
    experiment = client.get_experiment_by_name("digits")
    assert experiment.tags["mlflow.note.content"].startswith("Open *Views*")
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "mine")
    mirror(URI, "default", [run("a", 2.0)])
    assert client.get_experiment_by_name("digits").tags["mlflow.note.content"] == "mine"


def registered(folder):
    """What the registry holds: the name of each version, and what its run measured. No name is without a version."""
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    versions = client.search_model_versions()
    models = {model.name for model in client.search_registered_models()}
    assert models == {version.name for version in versions}
    return sorted((version.name, client.get_run(version.run_id).data.metrics["TA"]) for version in versions)


def model(name, accuracy=1.0):
    """A run as if it had a model, without one to export."""
    return Run(
        "digits", name, {}, {"TA": accuracy}, {"mlflow.note.content": "words", "seed": "0"}, registered=f"m-{name}"
    )


def test_the_registry_holds_one_version_of_each_current_model_however_often_it_is_mirrored(checkout):
    for accuracy in (1.0, 1.0, 2.0, 3.0, 1.0):
        mirror(URI, "default", [model("a", accuracy), model("b")])
        assert registered(checkout) == [("m-a", accuracy), ("m-b", 1.0)]
    mirror(URI, "small", [model("a", 4.0)])
    assert registered(checkout) == [("m-a", 1.0), ("m-a", 4.0), ("m-b", 1.0)]
    mirror(URI, "default", [run("c")])
    assert registered(checkout) == [("m-a", 4.0)]
    mirror(URI, "small", [])
    assert registered(checkout) == []


def test_a_version_says_what_it_is_and_finds_its_model_from_wherever_the_store_is(checkout):
    mirror(URI, "default", [model("a")])
    client = MlflowClient(f"sqlite:///{checkout}/mlflow.db")
    (version,) = client.search_model_versions()
    run_id = version.run_id
    assert version.source == f"runs:/{run_id}/model" and version.description == "words"
    assert version.tags == {"seed": "0", "munkey.project": "local", "munkey.configuration": "default"}


def test_a_model_that_somebody_registered_under_our_name_stays(checkout):
    client = MlflowClient(f"sqlite:///{checkout}/mlflow.db")
    client.create_registered_model("m-a")
    theirs = client.create_model_version("m-a", "file:///theirs")
    mirror(URI, "default", [model("a")])
    with opened(URI, "default") as store:
        mlflow_models.register(store.client, store.owner, {})
    assert [version.version for version in client.search_model_versions()] == [theirs.version]


def test_configurations_do_not_touch_each_others_runs(checkout):
    mirror(URI, "default", [run("a"), run("b")])
    assert mirror(URI, "small", [run("a")]).counts == counts(created=1)
    assert mirror(URI, "small", [run("c")]).counts == counts(created=1, superseded=1)
    assert stored(checkout, f"{CURRENT} and tags.`munkey.configuration` = 'default'") == {"a": [1.0], "b": [1.0]}
    assert mirror(URI, "default", [run("a"), run("b")]).counts == counts(kept=2)


def test_the_runs_of_others_are_left_alone_even_in_our_experiment(checkout):
    client = MlflowClient(f"sqlite:///{checkout}/mlflow.db")
    experiment = client.create_experiment("digits")
    client.create_run(experiment, run_name="theirs", tags={"munkey.key": "theirs"})
    tags = {"munkey.project": "another", "munkey.configuration": "default", "munkey.state": "current"}
    client.create_run(experiment, run_name="another's", tags=tags)
    mirror(URI, "default", [run("a")])
    mirror(URI, "default", [])
    assert set(stored(checkout)) == {"theirs", "another's", "a"}
    assert set(stored(checkout, CURRENT)) == {"another's"}


def test_checkouts_that_share_a_store_show_their_own_and_keep_artifacts_beside_it(checkout, tmp_path, monkeypatch):
    shared = f"sqlite:///{checkout}/mlflow.db"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        write_text(tmp_path / name / "result.json", name)
        assert mirror(shared, "default", [run(name, artifacts=("result.json",))]).counts == counts(created=1)
        assert not (tmp_path / name / "mlartifacts").exists()
    monkeypatch.chdir(tmp_path / "one")
    assert mirror(shared, "default", []).counts == counts(superseded=1)
    monkeypatch.chdir(checkout)
    assert mirror(URI, "default", []).counts == counts()
    assert stored(checkout, CURRENT) == {"two": [1.0]}
    assert sorted(path.read_text() for path in checkout.glob("mlartifacts/digits/*/artifacts/*")) == ["one", "two"]


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "copied"])
def test_a_moved_or_copied_checkout_goes_on_in_its_own_store(checkout, moved, monkeypatch):
    write_text(checkout / "result.json", "1")
    mirror(URI, "default", [run("a", artifacts=("result.json",))])
    there = (
        checkout.rename(checkout.parent / "there") if moved else shutil.copytree(checkout, checkout.parent / "there")
    )
    before = sorted(checkout.rglob("*"))
    monkeypatch.chdir(there)
    both = [run("a", artifacts=("result.json",)), run("b", artifacts=("result.json",))]
    assert mirror(URI, "default", both).counts == counts(kept=1, created=1)
    assert sorted(checkout.rglob("*")) == before
    client = MlflowClient(f"sqlite:///{there}/mlflow.db")
    for found in client.search_runs([client.get_experiment_by_name("digits").experiment_id]):
        assert found.info.artifact_uri.startswith(f"{there.as_uri()}/mlartifacts/digits/")
        assert [artifact.path for artifact in client.list_artifacts(found.info.run_id)] == ["result.json"]


def test_runs_whose_artifacts_did_not_come_along_keep_them(checkout, tmp_path, monkeypatch):
    write_text(checkout / "result.json", "1")
    mirror(URI, "default", [run("a", artifacts=("result.json",))])
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    shutil.copy(checkout / "mlflow.db", "mlflow.db")
    write_text("result.json", "1")
    assert mirror(URI, "default", [run("a", artifacts=("result.json",))]).counts == counts(kept=1)
    client = MlflowClient(f"sqlite:///{tmp_path}/there/mlflow.db")
    (kept,) = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert [artifact.path for artifact in client.list_artifacts(kept.info.run_id)] == ["result.json"]


def test_what_a_killed_mirror_left_half_done_is_replaced(checkout, monkeypatch):
    def killed(*_, **__):
        raise MlflowException("killed")

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "set_terminated", killed)
        with pytest.raises(StoreError, match="killed"):
            mirror(URI, "default", [run("a"), run("b")])
    assert mirror(URI, "default", [run("a"), run("b")]).counts == counts(created=2)
    assert stored(checkout) == stored(checkout, CURRENT) == {"a": [1.0], "b": [1.0]}


def test_a_deleted_experiment_is_not_brought_back_behind_the_users_back(checkout):
    mirror(URI, "default", [run("a")])
    client = MlflowClient(f"sqlite:///{checkout}/mlflow.db")
    client.delete_experiment(client.get_experiment_by_name("digits").experiment_id)
    with pytest.raises(
        StoreError, match="experiment digits was deleted; `mlflow experiments restore --experiment-id 1`"
    ):
        mirror(URI, "default", [run("a")])


def test_nothing_but_the_store_is_left_in_the_checkout(checkout):
    write_text(checkout / "result.json", "1")
    mirror(URI, "default", [run("a", artifacts=("result.json",))])
    assert {path.name for path in checkout.iterdir()} <= {
        "mlartifacts",
        "mlflow.db",
        "mlflow.db.lock",
        "result.json",
        ".result.json.sha256",
    }


def test_all_params_metrics_and_epochs_are_shown_however_many(checkout):
    many = Run(
        "digits",
        "a",
        {f"p{n}": n for n in range(250)},
        {"TA": 1.0},
        {},
        curves={"loss": [float(n) for n in range(1500)]},
    )
    mirror(URI, "default", [many])
    client = MlflowClient(f"sqlite:///{checkout}/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert found.data.params == {f"p{n}": str(n) for n in range(250)}
    assert [point.step for point in client.get_metric_history(found.info.run_id, "loss")] == list(range(1, 1501))


def test_the_file_that_stands_for_the_mirror_has_the_page_of_each_run(checkout):
    content = record(URI, "default", [run("a"), run("b")], attempt=3)
    assert content["failure"] is None and content["attempt"] == 3 and content["uri"] == URI
    assert [(each["experiment"], each["name"]) for each in content["runs"]] == [("digits", "a"), ("digits", "b")]
    assert all(each["page"].startswith("http://127.0.0.1:5000/#/experiments/1/runs/") for each in content["runs"])


def test_a_store_that_fails_is_told_and_no_error(checkout, capsys):
    content = record("sqlite:///", "default", [run("a")], attempt=0)
    assert "cannot be used" in content["failure"] and content["failure"] in capsys.readouterr().out
    assert [each["page"] for each in content["runs"]] == [""]
