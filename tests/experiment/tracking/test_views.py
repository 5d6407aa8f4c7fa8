"""Views that compare methods: what MLflow's page is told, and that each owner has its own."""

import base64
import json
import zlib

import pytest
from mlflow.tracking import MlflowClient

from munkey.experiment.tracking.mirror import mirror
from munkey.experiment.tracking.runs import Run
from munkey.experiment.tracking.views import COLUMNS, HOW_TO_READ, TAG, published, views_of

OWNER = "results/default"
MINE = f"tags.`munkey.results` = \"{OWNER}\" and tags.rate = '0.1' and "


def runs(rate="0.1", experiment="digits"):
    """A method, a seed of it, and the tables."""
    tags = {"rate": rate, "method": "cf-k"}
    means = {"gap": 1.0, "gap_sd": 0.1, "TA": 90.0, "unlearn_s": 1.0}
    metrics, curves, ended = {"TA": 90.0, "seed_gap": 1.0}, {"train/loss": [1.0]}, "2025-01-01T00:00:01+00:00"
    return [
        Run(experiment, f"CF-k @{rate}", {}, means, tags | {"kind": "method"}),
        Run(experiment, f"CF-k @{rate} seed 0", {}, metrics, tags | {"kind": "run"}, curves, ended=ended),
        Run(experiment, "Tables", {}, {}, {"kind": "table"}),
    ]


def state(view):
    """What the page is told: MLflow inflates it."""
    packed = json.loads(view.content)["state"].removeprefix("deflate;")
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_there_is_a_view_for_each_data_set_and_rate():
    several = [*runs("0.1"), *runs("0.02"), *runs("0.1", "other")]
    views = views_of(several, OWNER)
    start = views[0].key.removesuffix("0.1")
    assert [(view.experiment, view.key, view.name) for view in views] == [
        ("digits", f"{start}0.1", "Methods by gap, 10 % forgotten"),
        ("digits", f"{start}0.02", "Methods by gap, 2 % forgotten"),
        ("other", f"{start}0.1", "Methods by gap, 10 % forgotten"),
    ]
    assert json.loads(views[0].content)["createdAt"] == 1735689601000
    (other, *_) = views_of(several, "host:/one/results/small")
    assert other.name == "Methods by gap, 10 % forgotten (host:/one/results/small)"
    assert not other.key.startswith(start) and other.key.startswith("munkey-")


def test_it_finds_ours_sorted_by_gap_in_closed_groups_of_a_method():
    page = state(*views_of(runs(), OWNER))
    assert page["searchFilter"] == f"{MINE}tags.kind != 'candidate' and tags.kind != 'model'"
    assert (page["orderByKey"], page["orderByAsc"]) == ("metrics.`gap`", True)
    assert page["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "method"}]
    assert page["groupsExpanded"] == {"tag.method.cf-k": False}
    assert page["selectedColumns"] == [f"metrics.`{name}`" for name in COLUMNS]
    assert all(name.removesuffix("_sd") in HOW_TO_READ for name in COLUMNS)


def test_more_runs_than_mlflow_loads_at_once_are_left_to_the_methods_own():
    method, seed, _ = runs()
    many = state(*views_of([method, *[seed] * 99], OWNER))
    assert "= 'method'" not in many["searchFilter"]
    more = state(*views_of([method, *[seed] * 100], OWNER))
    assert more["searchFilter"] == f"{MINE}tags.kind = 'method'"


@pytest.fixture
def client(checkout):
    return MlflowClient(f"sqlite:///{checkout}/mlflow.db")


def test_a_store_has_the_views_of_the_rates_that_there_are_and_each_finds_its_runs(client):
    uri = "sqlite:///mlflow.db"
    mirrored = mirror(uri, "default", [*runs("0.1"), *runs("0.02")[:2]])
    mirror(uri, "small", runs("0.5"))
    names = [f"digits: Methods by gap, {n} % forgotten" for n in ("10", "2", "50")]
    names[2] += " (results/small)"
    addresses = published(client, "http://host")
    assert set(addresses) == set(names) and set(mirrored.views) == set(names[:2])
    (view, _) = views_of([*runs("0.1"), *runs("0.02")], OWNER)
    experiment = client.get_experiment_by_name("digits")
    page = f"#/experiments/{experiment.experiment_id}/runs?workflowType=machine_learning&viewStateShareKey={view.key}"
    assert addresses[names[0]] == f"http://host/{page}"
    assert mirrored.views[names[0]] == f"http://127.0.0.1:5000/{page}"
    assert experiment.tags[f"{TAG}{view.key}"] == view.content
    found = client.search_runs([experiment.experiment_id], state(view)["searchFilter"])
    assert {run.info.run_name for run in found} == {"CF-k @0.1", "CF-k @0.1 seed 0"}
    mirror(uri, "default", runs("0.1"))
    assert set(published(client, "")) == {names[0], names[2]}
    mirror(uri, "default", [])
    assert set(published(client, "")) == {names[2]}


def test_a_note_that_somebody_wrote_stays(client):
    mirror("sqlite:///mlflow.db", "default", runs())
    experiment = client.get_experiment_by_name("digits")
    assert experiment.tags["mlflow.note.content"].startswith("Open *Views*")
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "mine")
    mirror("sqlite:///mlflow.db", "default", [])
    assert client.get_experiment_by_name("digits").tags["mlflow.note.content"] == "mine"
