"""Views that compare methods: what MLflow's page is told, and that each owner has its own."""

import base64
import json
import zlib

from munkey.experiment.tracking.tracking import Run
from munkey.experiment.tracking.views import COLUMNS, HOW_TO_READ, key_of, view_in, views_of

MINE = "tags.`munkey.project` = 'local'"


def runs(rate="0.1", experiment="digits"):
    """A method, a seed of it, and the tables."""
    tags = {"rate": rate, "method": "cf-k"}
    ended = {"ended": "2025-01-01T00:00:01+00:00"}
    method = Run(
        experiment, "CF-k", {}, {"gap": 1.0, "gap_sd": 0.1, "TA": 90.0, "unlearn_s": 1.0}, tags | {"kind": "method"}
    )
    seed = Run(
        experiment, "s", {}, {"TA": 90.0, "seed_gap": 1.0}, tags | {"kind": "run"}, {"train/loss": [1.0]}, **ended
    )
    return [method, seed, Run(experiment, "Tables", {}, {}, {"kind": "table"})]


def state(view):
    """What the page is told: MLflow inflates it."""
    packed = json.loads(view.content)["state"].removeprefix("deflate;")
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_there_is_a_view_for_each_data_set_and_rate():
    both = [*runs(), *runs("0.02"), *runs(experiment="other")]
    views = views_of(both, ["local", "default"], MINE)
    assert [(view.experiment, view.key, view.name) for view in views] == [
        ("digits", "munkey/local/default/rate0.1", "Methods by gap, 10 % forgotten"),
        ("digits", "munkey/local/default/rate0.02", "Methods by gap, 2 % forgotten"),
        ("other", "munkey/local/default/rate0.1", "Methods by gap, 10 % forgotten"),
    ]
    assert json.loads(views[0].content)["createdAt"] == 1735689601000
    assert views_of(both, ["local", "default"], MINE) == views


def test_it_finds_ours_sorted_by_gap_in_closed_groups_of_a_method():
    (view,) = views_of(runs(), ["local", "default"], MINE)
    page = state(view)
    assert page["searchFilter"].startswith(f"{MINE} and tags.rate = '0.1' and ")
    assert (page["orderByKey"], page["orderByAsc"]) == ("metrics.`gap`", True)
    assert page["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "method"}]
    assert page["groupsExpanded"] == {"tag.method.cf-k": False}
    assert page["selectedColumns"] == [f"metrics.`{name}`" for name in COLUMNS]


def test_it_draws_what_there_are_numbers_for_and_nothing_else():
    (view,) = views_of(runs(), ["local", "default"], MINE)
    page = state(view)
    drawn = {chart["uuid"]: chart for chart in page["compareRunCharts"] if not chart["deleted"]}
    assert {name: chart["type"] for name, chart in drawn.items()} == {
        "gap": "BAR", "unlearn_s:gap": "SCATTER", "TA": "BAR", "unlearn_s": "BAR", "train/loss": "LINE",
    }  # fmt: skip
    assert {chart["uuid"] for chart in page["compareRunCharts"]} - set(drawn) == {"gap_sd", "seed_gap"}
    sections = {section["uuid"] for section in page["compareRunSections"]}
    assert sections == {chart["metricSectionId"] for chart in drawn.values()}


def test_more_runs_than_mlflow_loads_at_once_are_left_to_the_methods_own():
    method, seed, _ = runs()
    many = state(*views_of([method, *[seed] * 99], [], "ours"))
    assert "tags.kind" in many["searchFilter"] and "= 'method'" not in many["searchFilter"]
    more = state(*views_of([method, *[seed] * 100], [], "ours"))
    assert more["searchFilter"] == "ours and tags.rate = '0.1' and tags.kind = 'method'"
    assert not any(chart["uuid"].startswith("train/") for chart in more["compareRunCharts"])


def test_views_of_others_have_other_keys_and_names():
    (own,) = views_of(runs(), ["0123", "small"], MINE)
    assert own.name == "Methods by gap, 10 % forgotten (0123, small)"
    assert not own.key.startswith(key_of(["0123", "smal"], ""))
    assert view_in("digits", f"mlflow.sharedViewState.{own.key}", own.content) == own


def test_the_note_explains_every_column():
    assert all(name.removesuffix("_sd") in HOW_TO_READ for name in COLUMNS)
