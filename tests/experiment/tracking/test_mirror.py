"""The mirror in a store that others use: complete, idempotent, and never at the cost of anything that was there."""

import json
import shutil
import socket

import pytest
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from munkey.core.files import write_json, write_text
from munkey.experiment.tracking.mirror import mirror, next_attempt, outcome, record
from munkey.experiment.tracking.runs import Run, Samples
from munkey.experiment.tracking.store import MlflowStore, StoreError

URI = "sqlite:///mlflow.db"


def run(name, accuracy=1.0, experiment="digits", **contents):
    return Run(experiment, name, {"p": 1}, {"TA": accuracy}, {"seed": "0"}, **contents)


def counts(unchanged=0, created=0, deleted=0):
    return {"unchanged": unchanged, "created": created, "deleted": deleted}


def client_of(folder):
    return MlflowClient(f"sqlite:///{folder}/mlflow.db")


def runs_in(folder, deleted=False):
    view = ViewType.DELETED_ONLY if deleted else ViewType.ACTIVE_ONLY
    client = client_of(folder)
    return client.search_runs([e.experiment_id for e in client.search_experiments()], run_view_type=view)


def stored(folder, deleted=False):
    """The runs in a store, by name: for each its accuracies."""
    accuracies = {}
    for found in runs_in(folder, deleted):
        accuracies.setdefault(found.info.run_name, []).append(found.data.metrics.get("TA"))
    return {name: sorted(values) for name, values in accuracies.items()}


def test_what_is_unchanged_stays_and_what_changed_or_vanished_is_deleted_but_not_for_good(checkout):
    assert mirror(URI, "default", [run("a"), run("b", 2.0)]).counts == counts(created=2)
    first = mirror(URI, "default", [run("a"), run("b", 2.0)])
    assert first.counts == counts(unchanged=2) and str(first) == "2 unchanged, 0 created, 0 deleted"
    second = mirror(URI, "default", [run("a"), run("b", 3.0)])
    assert second.counts == counts(unchanged=1, created=1, deleted=1)
    assert second.pages[0] == first.pages[0] and second.pages[1] != first.pages[1]
    assert mirror(URI, "default", [run("a", experiment="other")]).counts == counts(created=1, deleted=2)
    assert stored(checkout) == {"a": [1.0]}
    assert stored(checkout, deleted=True) == {"a": [1.0], "b": [2.0, 3.0]}
    (found,) = runs_in(checkout)
    assert found.data.tags["munkey.results"] == "results/default"


def parents(folder):
    """By the name of a run and what it measured, the one that it is nested under."""
    names = {each.info.run_id: (each.info.run_name, each.data.metrics["TA"]) for each in runs_in(folder)}
    return {names[each.info.run_id]: names.get(each.data.tags.get("mlflow.parentRunId")) for each in runs_in(folder)}


def test_a_run_that_is_unchanged_is_nested_under_the_new_one_of_its_parent(checkout):
    def runs(mean, second):
        return [run("mean", mean), run("one", parent="mean"), run("two", second, parent="mean")]

    mirror(URI, "default", runs(1.0, 1.0))
    assert parents(checkout) == {("mean", 1.0): None, ("one", 1.0): ("mean", 1.0), ("two", 1.0): ("mean", 1.0)}
    assert mirror(URI, "default", runs(2.0, 3.0)).counts == counts(unchanged=1, created=2, deleted=2)
    assert parents(checkout) == {("mean", 2.0): None, ("one", 1.0): ("mean", 2.0), ("two", 3.0): ("mean", 2.0)}


def test_a_run_is_written_with_all_that_it_shows_however_much(checkout):
    write_text("result.json", "1")
    many = Run(
        "digits",
        "a",
        {f"p{n}": n for n in range(250)},
        {"TA": 1.0},
        {"kind": "table"},
        {"loss": [float(n) for n in range(1500)]},
        artifacts=("result.json",),
        started="2025-01-01T00:00:01+00:00",
        ended="2025-01-01T00:00:03+00:00",
        inputs=(Samples("digits", "training", "results/digits", "abc", 7),),
    )
    mirror(URI, "default", [many])
    (found,) = runs_in(checkout)
    assert found.data.params == {f"p{n}": str(n) for n in range(250)} and found.data.tags["kind"] == "table"
    curve = client_of(checkout).get_metric_history(found.info.run_id, "loss")
    assert [(point.step, point.value) for point in curve] == [(n + 1, float(n)) for n in range(1500)]
    assert (found.info.start_time, found.info.end_time, found.info.status) == (1735689601000, 1735689603000, "FINISHED")
    (given,) = found.inputs.dataset_inputs
    assert (given.dataset.name, given.dataset.digest, given.dataset.profile) == ("digits", "abc", '{"num_rows": 7}')
    assert [(tag.key, tag.value) for tag in given.tags] == [("mlflow.data.context", "training")]
    files = {path.name for path in checkout.iterdir()}
    assert files == {"mlartifacts", "mlflow.db", "mlflow.db.lock", "result.json", ".result.json.sha256"}


def test_the_runs_of_other_configurations_checkouts_and_people_are_left_alone(checkout, tmp_path, monkeypatch):
    client = client_of(checkout)
    client.create_run(client.create_experiment("digits"), run_name="theirs", tags={"munkey.key": "theirs"})
    shared = f"sqlite:///{checkout}/mlflow.db"
    write_text(tmp_path / "one" / "result.json", "one")
    for name in ("one", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        assert mirror(shared, "default", [run(name, experiment="toy")]).counts == counts(created=1)
        assert mirror(shared, "small", [run(f"{name} small")]).counts == counts(created=1)
        assert not (tmp_path / name / "mlartifacts").exists()
    assert mirror(shared, "default", []).counts == counts(deleted=1)
    assert set(stored(checkout)) == {"theirs", "one", "one small", "two small"}
    owners = {found.info.run_name: found.data.tags.get("munkey.results") for found in runs_in(checkout)}
    assert (owners["one"], owners["two small"]) == ("../one/results/default", "../two/results/small")


def test_on_a_server_the_machine_and_the_folder_say_whose_a_run_is_or_the_user_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = MlflowStore(None, "http://host:5000/", None)
    assert store.owner("small") == f"{socket.gethostname()}:{tmp_path}/results/small"
    monkeypatch.setenv("MUNKEY_OWNER", "team")
    assert store.owner("small") == "team/small"


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "copied"])
def test_a_moved_or_copied_checkout_goes_on_in_its_own_store(checkout, moved, monkeypatch):
    write_text(checkout / "result.json", "1")
    mirror(URI, "default", [run("a", artifacts=("result.json",))])
    place = checkout.parent / "there"
    there = checkout.rename(place) if moved else shutil.copytree(checkout, place)
    before = sorted(checkout.rglob("*"))
    monkeypatch.chdir(there)
    both = [run("a", artifacts=("result.json",)), run("b", artifacts=("result.json",))]
    assert mirror(URI, "default", both).counts == counts(created=2, deleted=1)
    assert mirror(URI, "default", both).counts == counts(unchanged=2)
    assert sorted(checkout.rglob("*")) == before
    assert f"digits of {checkout.as_uri()} (1)" in {each.name for each in client_of(there).search_experiments()}
    for found in runs_in(there):
        assert found.info.artifact_uri.startswith(f"{there.as_uri()}/mlartifacts/digits/")
        assert [each.path for each in client_of(there).list_artifacts(found.info.run_id)] == ["result.json"]


@pytest.mark.parametrize("step", ["log_batch", "set_terminated"])
def test_what_a_killed_mirror_left_half_done_is_replaced(checkout, monkeypatch, step):
    def killed(*_, **__):
        raise MlflowException("killed")

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, step, killed)
        with pytest.raises(StoreError, match="killed"):
            mirror(URI, "default", [run("a"), run("b")])
    assert mirror(URI, "default", [run("a"), run("b")]).counts == counts(created=2, deleted=1)
    assert stored(checkout) == {"a": [1.0], "b": [1.0]}


@pytest.mark.parametrize("step", ["create_run", "log_batch", "set_terminated", "create_model_version"])
def test_a_mirror_that_fails_while_it_writes_leaves_what_was_there(checkout, monkeypatch, step):
    def failing(*_, **__):
        raise MlflowException("down")

    def runs(accuracy):
        return [run("a", accuracy, registered="model"), run("b")]

    mirror(URI, "default", runs(1.0))
    (version,) = client_of(checkout).search_model_versions()
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, step, failing)
        with pytest.raises(StoreError, match="down"):
            mirror(URI, "default", runs(2.0))
    assert not runs_in(checkout, deleted=True)
    assert [each.run_id for each in client_of(checkout).search_model_versions()] == [version.run_id]
    mirror(URI, "default", runs(2.0))
    assert stored(checkout) == {"a": [2.0], "b": [1.0]}
    (version,) = client_of(checkout).search_model_versions()
    assert client_of(checkout).get_run(version.run_id).data.metrics["TA"] == 2.0


def test_a_run_that_stands_twice_is_left_once(checkout):
    mirror(URI, "default", [run("a")])
    mirror(URI, "default", [run("a", 2.0)])
    (earlier,) = runs_in(checkout, deleted=True)
    mirror(URI, "default", [run("a")])
    client_of(checkout).restore_run(earlier.info.run_id)
    assert mirror(URI, "default", [run("a")]).counts == counts(unchanged=1, deleted=1)


def test_a_deleted_experiment_is_not_brought_back_behind_the_users_back(checkout):
    mirror(URI, "default", [run("a")])
    client = client_of(checkout)
    client.delete_experiment(client.get_experiment_by_name("digits").experiment_id)
    with pytest.raises(StoreError, match=r"digits was deleted: `mlflow experiments restore --experiment-id 1`"):
        mirror(URI, "default", [run("a")])


def test_the_file_that_stands_for_the_mirror_has_the_page_of_each_run(checkout, capsys):
    content = record(URI, "default", [run("a"), run("b")], attempt=3)
    assert (content["failure"], content["attempt"], content["uri"]) == (None, 3, URI)
    assert [(each["experiment"], each["name"]) for each in content["runs"]] == [("digits", "a"), ("digits", "b")]
    assert all(each["page"].startswith("http://127.0.0.1:5000/#/experiments/1/runs/") for each in content["runs"])
    assert capsys.readouterr().out == f"MLflow at {URI}, runs: 0 unchanged, 2 created, 0 deleted\n"
    failed = record("sqlite:///", "default", [run("a")], attempt=0)
    assert "cannot be used" in failed["failure"] and failed["failure"] in capsys.readouterr().out
    assert failed["runs"] == [{"name": "a", "experiment": "digits", "page": ""}]


@pytest.mark.parametrize(
    ("left", "number"),
    [
        (None, 0),
        ({"attempt": 0, "failure": None}, 0),
        ({"attempt": 0, "failure": "refused"}, 1),
        ({"attempt": 1, "failure": None}, 1),
        ({"attempt": 1, "failure": "refused"}, 2),
    ],
)
def test_only_a_mirror_that_failed_is_attempted_again(left, number, tmp_path):
    path = tmp_path / "tracking.json"
    if left:
        write_json(path, left)
    assert next_attempt(str(path)) == number
    path.write_text(json.dumps(left)[:-1])
    assert next_attempt(str(path)) == -1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"uri": "sqlite:///mlflow.db", "failure": None}, "make ui"),
        ({"uri": "http://user:secret@host", "failure": None}, "http://host"),
        ({"uri": "http://host", "views": {"a": "http://host/#/a"}}, "http://host\n          http://host/#/a"),
        ({"uri": "http://host", "failure": "It is down."}, "It is down."),
    ],
)
def test_a_run_ends_by_saying_where_to_look_or_why_there_is_nothing(tmp_path, content, words):
    path = tmp_path / "tracking.json"
    assert outcome(str(path)) == "make ui"
    write_json(path, content)
    assert outcome(str(path)) == words
