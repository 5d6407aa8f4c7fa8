"""The log in MLflow: complete, nothing logged twice, and never at the cost of anything that was there."""

import json
import math
import shutil
import socket
from collections import defaultdict
from urllib.parse import parse_qs, urlsplit

import pytest
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from munkey.core.files import write_json, write_text
from munkey.experiment.outcome import describe_mlflow, describe_replaced_runs
from munkey.experiment.tracking.mlflow_log import (
    get_owner,
    list_comparisons,
    log,
    next_attempt,
    record,
)
from munkey.experiment.tracking.runs import Run
from munkey.experiment.tracking.store import StoreError

URI = "sqlite:///mlflow.db"


def run(name, accuracy=1.0, experiment="digits", params=None, **contents):
    return Run(experiment, name, params or {"p": 1}, {"TA": accuracy}, {"seed": "0"}, **contents)


def counts(logged):
    return logged.unchanged, logged.added


def client_of(folder):
    return MlflowClient(f"sqlite:///{folder}/mlflow.db")


def runs_in(folder):
    client = client_of(folder)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return client.search_runs(experiments, run_view_type=ViewType.ALL)


def run_in(folder, accuracy):
    """The run of a store with this accuracy."""
    (run,) = [run for run in runs_in(folder) if run.data.metrics.get("TA") == accuracy]
    return run


def accuracies(folder):
    """By name, the accuracies of the runs in a store: of the present ones, and of all."""
    present = defaultdict(list)
    everything = defaultdict(list)
    for entry in sorted(runs_in(folder), key=lambda entry: str(entry.data.metrics.get("TA"))):
        assert entry.info.lifecycle_stage == "active"
        accuracy = entry.data.metrics.get("TA")
        everything[entry.info.run_name].append(accuracy)
        if entry.data.tags.get("munkey.present") == "true":
            present[entry.info.run_name].append(accuracy)
    return [present, everything]


def test_an_unchanged_run_is_not_logged_again_and_no_run_is_deleted(checkout):
    assert counts(log(URI, "default", [run("a"), run("b", 2.0)])) == (0, 2)
    first = log(URI, "default", [run("a"), run("b", 2.0)])
    assert counts(first) == (2, 0)
    assert str(first) == "2 unchanged, 0 added"
    second = log(URI, "default", [run("a"), run("b", 3.0)])
    assert counts(second) == (1, 1)
    assert second.pages[0] == first.pages[0]
    assert second.pages[1] != first.pages[1]
    assert counts(log(URI, "default", [run("a", experiment="other")])) == (0, 1)
    assert accuracies(checkout) == [{"a": [1.0]}, {"a": [1.0, 1.0], "b": [2.0, 3.0]}]


def test_the_earlier_runs_are_present_again_after_an_edit_is_taken_back(checkout):
    first = log(URI, "default", [run("a"), run("b")])
    log(URI, "default", [run("a", 2.0)])
    again = log(URI, "default", [run("a"), run("b")])
    assert counts(again) == (2, 0)
    assert again.pages == first.pages
    assert accuracies(checkout) == [{"a": [1.0], "b": [1.0]}, {"a": [1.0, 2.0], "b": [1.0]}]


def test_a_run_names_the_changes_since_the_run_that_it_replaces(checkout):
    log(URI, "default", [run("a", params={"munkey.p_token": 0.5, "train.lr": 1, "old": 2})])
    log(URI, "default", [run("a", 2.0, params={"munkey.p_token": 0.65, "train.lr": 1, "new": 3})])
    log(URI, "default", [run("a", 3.0, params={"munkey.p_token": 0.65, "train.lr": 1, "new": 3})])
    assert "munkey.changed" not in run_in(checkout, 1.0).data.tags
    second, third = (run_in(checkout, accuracy).data.tags for accuracy in (2.0, 3.0))
    assert second["munkey.changed"] == "munkey.p_token: 0.5 → 0.65; new: – → 3; old: 2 → –"
    assert third["munkey.changed"] == "no setting: code, data or versions"
    many_knobs = {f"knob{number}": "long" * 10 for number in range(50)}
    log(URI, "default", [run("a", 4.0, params=many_knobs)])
    assert len(run_in(checkout, 4.0).data.tags["munkey.changed"]) == 500


def parents(folder):
    """The name and accuracy of each run's parent, by the name and accuracy of the run."""
    names = {None: None}
    for entry in runs_in(folder):
        names[entry.info.run_id] = (entry.info.run_name, entry.data.metrics["TA"])
    parents = {}
    for entry in runs_in(folder):
        parents[names[entry.info.run_id]] = names[entry.data.tags.get("mlflow.parentRunId")]
    return parents


def test_an_unchanged_run_stays_under_its_present_parent(checkout):
    def runs(mean, second):
        return [run("mean", mean), run("one", parent="mean"), run("two", second, parent="mean")]

    log(URI, "default", runs(1.0, 1.0))
    assert parents(checkout) == {
        ("mean", 1.0): None,
        ("one", 1.0): ("mean", 1.0),
        ("two", 1.0): ("mean", 1.0),
    }
    assert counts(log(URI, "default", runs(2.0, 3.0))) == (1, 2)
    assert parents(checkout) == {
        ("mean", 1.0): None,
        ("mean", 2.0): None,
        ("one", 1.0): ("mean", 2.0),
        ("two", 1.0): ("mean", 1.0),
        ("two", 3.0): ("mean", 2.0),
    }


def test_a_run_has_all_its_params_points_artifacts_and_tables(checkout):
    write_text("result.json", "1")
    write_text("main.csv", "method,TA\ncf,90.5\n")
    many = Run(
        "digits",
        "a",
        {f"p{n}": n for n in range(250)},
        {"TA": 1.0},
        {"kind": "table"},
        {"loss": [float(n) for n in range(1500)]},
        artifacts=("result.json",),
        table="main.csv",
        started="2025-01-01T00:00:01+00:00",
        ended="2025-01-01T00:00:03+00:00",
    )
    log(URI, "default", [many])
    (logged,) = runs_in(checkout)
    assert logged.data.params == {f"p{n}": str(n) for n in range(250)}
    assert logged.data.tags["kind"] == "table"
    client = client_of(checkout)
    curve = client.get_metric_history(logged.info.run_id, "loss")
    assert [point.step for point in curve] == list(range(1, 1501))
    assert [point.value for point in curve] == list(range(1500))
    assert (logged.info.start_time, logged.info.end_time) == (1735689601000, 1735689603000)
    assert logged.info.status == "FINISHED"
    artifacts = {artifact.path for artifact in client.list_artifacts(logged.info.run_id)}
    assert artifacts == {"result.json", "main.json"}
    table = client.load_table(logged.info.experiment_id, "main.json", [logged.info.run_id])
    assert table.to_dict("records") == [{"method": "cf", "TA": 90.5}]


def test_the_runs_of_other_configurations_checkouts_and_people_are_left_alone(
    checkout, tmp_path, monkeypatch
):
    client = client_of(checkout)
    client.create_run(
        client.create_experiment("digits", (checkout / "mlartifacts/digits").as_uri()),
        run_name="theirs",
    )
    shared = f"sqlite:///{checkout}/mlflow.db"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert counts(log(shared, "default", [run(name, experiment="toy")])) == (0, 1)
        assert counts(log(shared, "small", [run(f"{name} small")])) == (0, 1)
        assert not (tmp_path / name / "mlartifacts").exists()
    log(shared, "default", [])
    present, everything = accuracies(checkout)
    assert set(present) == {"one", "one small", "two small"}
    assert set(everything) == {*present, "theirs", "two"}
    runs = {entry.info.run_name: entry for entry in runs_in(checkout)}
    assert runs["one"].data.tags["munkey.results"] == "../one/results/default"
    assert runs["two small"].data.tags["munkey.results"] == "../two/results/small"
    assert runs["theirs"].info.status == "RUNNING"


def test_the_owner_of_a_run_on_a_server_is_its_machine_and_folder_or_the_variable(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    owner = get_owner("small", "http://host:5000/")
    assert owner == f"{socket.gethostname()}:{tmp_path}/results/small"
    monkeypatch.setenv("MUNKEY_OWNER", "team")
    assert get_owner("small", "http://host:5000/") == "team/small"


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "copied"])
def test_a_moved_or_copied_store_is_refused_and_nothing_is_written_to_the_old_place(
    checkout, moved, monkeypatch
):
    write_text(checkout / "result.json", "1")
    log(URI, "default", [run("a", artifacts=("result.json",))])
    place = checkout.parent / "there"
    there = checkout.rename(place) if moved else shutil.copytree(checkout, place)
    before = sorted(checkout.rglob("*"))
    monkeypatch.chdir(there)
    with pytest.raises(StoreError, match=r"moved or copied.*sqlite:///mlflow-2\.db"):
        log(URI, "default", [run("b", artifacts=("result.json",))])
    assert sorted(checkout.rglob("*")) == before
    logged = log("sqlite:///mlflow-2.db", "default", [run("b", artifacts=("result.json",))])
    assert counts(logged) == (0, 1)


@pytest.mark.parametrize("step", ["log_batch", "set_terminated"])
def test_a_run_that_was_cut_off_is_logged_again_and_its_rest_is_marked_as_killed(
    checkout, monkeypatch, step
):
    def killed(*_, **__):
        raise MlflowException("killed")

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, step, killed)
        with pytest.raises(StoreError, match="killed"):
            log(URI, "default", [run("a"), run("b")])
    assert counts(log(URI, "default", [run("a"), run("b")])) == (0, 2)
    assert accuracies(checkout)[0] == {"a": [1.0], "b": [1.0]}
    statuses = sorted(entry.info.status for entry in runs_in(checkout))
    assert statuses == ["FINISHED", "FINISHED", "KILLED"]


@pytest.mark.parametrize("step", ["create_run", "log_batch", "set_terminated"])
def test_a_log_that_fails_leaves_the_earlier_runs(checkout, monkeypatch, step):
    def failing(*_, **__):
        raise MlflowException("down")

    log(URI, "default", [run("a"), run("b")])
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, step, failing)
        with pytest.raises(StoreError, match="down"):
            log(URI, "default", [run("a", 2.0), run("b")])
    log(URI, "default", [run("a", 2.0), run("b")])
    assert accuracies(checkout)[0] == {"a": [2.0], "b": [1.0]}


def test_one_of_two_equal_runs_is_present(checkout):
    log(URI, "default", [run("a")])
    (first,) = runs_in(checkout)
    client = client_of(checkout)
    tags = {}
    for name, value in first.data.tags.items():
        if name.startswith("munkey."):
            tags[name] = value
    twin = client.create_run(first.info.experiment_id, tags=tags, run_name="a")
    client.log_metric(twin.info.run_id, "TA", 1.0)
    client.set_terminated(twin.info.run_id)
    assert counts(log(URI, "default", [run("a")])) == (1, 0)
    assert accuracies(checkout) == [{"a": [1.0]}, {"a": [1.0, 1.0]}]


def test_a_deleted_experiment_is_not_restored_unasked(checkout):
    log(URI, "default", [run("a")])
    client = client_of(checkout)
    client.delete_experiment(client.get_experiment_by_name("digits").experiment_id)
    with pytest.raises(StoreError, match=r"`mlflow experiments restore --experiment-id 1`"):
        log(URI, "default", [run("a")])


def method_run(name, gap, rate="0.1"):
    metrics = {"TA": 1.0} if gap is None else {"TA": 1.0, "gap": gap}
    return Run("digits", f"{name} @{rate}", {}, metrics, {"kind": "method", "rate": rate})


def test_an_address_compares_the_present_methods_of_a_rate_the_smallest_gap_first(checkout):
    log(URI, "default", [method_run("gone", 0.1)])
    runs = [method_run("Retrain", None), method_run("CF", 5.0), method_run("MUNKEY", 0.5)]
    log(URI, "default", [*runs, method_run("CF", 1.0, rate="0.02"), run("CF seed 0")])
    names = {entry.info.run_id: entry.info.run_name for entry in runs_in(checkout)}
    addresses = list_comparisons(client_of(checkout), "http://host")
    comparisons = {}
    for name, address in addresses.items():
        assert address.startswith("http://host/#/compare-runs?")
        query = query_of(address)
        assert json.loads(query["experiments"][0]) == ["1"]
        comparisons[name] = [names[run_id] for run_id in json.loads(query["runs"][0])]
    assert comparisons == {
        "results/default: digits, 2% forgotten": ["CF @0.02"],
        "results/default: digits, 10% forgotten": ["MUNKEY @0.1", "CF @0.1", "Retrain @0.1"],
    }
    assert list_comparisons(client_of(checkout), "http://host", "results/other") == {}


def query_of(address):
    """The query behind the # of an address of MLflow."""
    return parse_qs(urlsplit(address.replace("/#/", "/")).query)


def compared_names(folder):
    """The name and gap of each run that an address compares, by the name of the address."""
    runs = {}
    for entry in runs_in(folder):
        runs[entry.info.run_id] = (entry.info.run_name, entry.data.metrics["gap"])
    names = {}
    for name, address in list_comparisons(client_of(folder), "http://host").items():
        names[name] = [runs[run_id] for run_id in json.loads(query_of(address)["runs"][0])]
    return names


def test_an_address_compares_the_runs_before_and_after_a_change(checkout):
    log(URI, "default", [method_run("CF", 5.0), method_run("MUNKEY", 0.5)])
    assert list(compared_names(checkout)) == ["results/default: digits, 10% forgotten"]
    logged = log(URI, "default", [method_run("CF", 5.0), method_run("MUNKEY", 0.7)])
    assert (logged.replaced, logged.changes) == (1, ["no setting: code, data or versions"])
    before_and_after = "results/default: digits, 10% forgotten, before and after the last change"
    assert compared_names(checkout)[before_and_after] == [
        ("MUNKEY @0.1", 0.5),
        ("MUNKEY @0.1", 0.7),
    ]
    again = log(URI, "default", [method_run("CF", 5.0), method_run("MUNKEY", 0.7)])
    assert (again.replaced, again.changes) == (0, [])


def test_an_edit_that_is_taken_back_replaces_the_edited_run(checkout):
    first = run("a", params={"k": 1})
    second = run("a", 2.0, params={"k": 2})
    log(URI, "default", [first])
    assert log(URI, "default", [second]).changes == ["k: 1 → 2"]
    assert log(URI, "default", [first]).changes == ["k: 2 → 1"]
    replaced = run_in(checkout, 1.0).data.tags["munkey.replaced"]
    assert replaced == run_in(checkout, 2.0).info.run_id


def test_an_address_compares_the_configurations_of_a_store(checkout):
    log(URI, "default", [method_run("MUNKEY", 0.5)])
    log(URI, "other", [method_run("MUNKEY", 0.7)])
    together = compared_names(checkout)["results/default, results/other: digits, 10% forgotten"]
    assert together == [("MUNKEY @0.1", 0.5), ("MUNKEY @0.1", 0.7)]


@pytest.mark.parametrize(
    ("earlier", "since", "words"),
    [
        (
            {"runs": 2, "changes": ["no setting: code, data or versions", "k: 1 → 2"]},
            0,
            "2 earlier runs (k: 1 → 2).",
        ),
        (
            {"runs": 1, "changes": ["no setting: code, data or versions"]},
            0,
            "1 earlier run (no setting: code",
        ),
        ({"runs": 5, "changes": [f"k{n}: 1 → 2" for n in range(5)]}, 0, "k2: 1 → 2 and 2 more)."),
        ({"runs": 0, "changes": []}, 0, ""),
        ({"runs": 2, "changes": ["k: 1 → 2"]}, math.inf, ""),  # an earlier run said so
        (None, 0, ""),
    ],
)
def test_a_run_ends_with_the_runs_that_it_replaced_and_how_to_keep_both(
    tmp_path, earlier, since, words
):
    path = tmp_path / "tracking.json"
    assert describe_replaced_runs(str(path), since) == ""
    content = {"uri": URI, "failure": None}
    if earlier:
        content["replaced"] = earlier
    write_json(path, content)
    message = " ".join(describe_replaced_runs(str(path), since).split())
    if not words:
        assert message == ""
        return
    for part in (words, "`name`", "`ablations`", "`dvc exp run -S`", "#change-a-knob"):
        assert part in message


def test_the_record_of_a_log_has_the_page_of_each_run(checkout, capsys):
    content = record(URI, "default", [run("a"), run("b")], attempt=3)
    assert (content["failure"], content["attempt"], content["uri"]) == (None, 3, URI)
    for entry, name in zip(content["runs"], ("a", "b"), strict=True):
        assert (entry["experiment"], entry["name"]) == ("digits", name)
        assert entry["page"].startswith("http://127.0.0.1:5000/#/experiments/1/runs/")
    assert f"{URI}, runs: 0 unchanged, 2 added" in capsys.readouterr().out
    failed = record("sqlite:///", "default", [run("a")], attempt=0)
    assert "cannot be used" in failed["failure"]
    assert failed["failure"] in capsys.readouterr().out
    assert failed["runs"] == [{"name": "a", "experiment": "digits", "page": ""}]


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (None, 0),
        ({"attempt": 0, "failure": None}, 0),
        ({"attempt": 0, "failure": "refused"}, 1),
        ({"attempt": 1, "failure": None}, 1),
        ({"attempt": 1, "failure": "refused"}, 2),
    ],
)
def test_only_a_failed_attempt_is_repeated(content, number, tmp_path):
    path = tmp_path / "tracking.json"
    if content:
        write_json(path, content)
    assert next_attempt(str(path)) == number
    path.write_text(json.dumps(content)[:-1])
    assert next_attempt(str(path)) == -1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"uri": "sqlite:///mlflow.db", "failure": None}, "make ui"),
        ({"uri": "http://user:secret@host", "failure": None, "comparisons": {}}, "http://host"),
        (
            {"uri": "http://host", "comparisons": {"a": "http://host/#/a"}},
            "http://host\n          http://host/#/a",
        ),
        ({"uri": "http://host", "failure": "It is down."}, "It is down."),
    ],
)
def test_a_run_ends_with_the_address_of_its_log_or_the_reason_of_its_failure(
    tmp_path, content, words
):
    path = tmp_path / "tracking.json"
    assert describe_mlflow(str(path)) == "make ui"
    write_json(path, content)
    assert describe_mlflow(str(path)) == words
