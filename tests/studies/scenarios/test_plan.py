"""Scenarios: the same experiment after other forget sets, which shares all that no forget set changes."""

import pytest

from munkey.experiment.params.load import ParamsError
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.studies.scenarios.plan import ScenarioPlan, list_scenario_runs
from tests.experiment.inputs import small_plan

SCENARIOS = {
    "three": {"sampling": "class", "names": ["3"]},
    "clusters": {"sampling": "cluster", "rates": [0.1, 0.05]},
    "hard": {"sampling": "hard", "rates": [0.1]},
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_plan({"scenarios": SCENARIOS | {"off": None}})


def test_scenarios_share_originals_and_have_their_own_forget_sets_oracles_and_methods(
    plan: Plan,
):
    runs = list_scenario_runs(plan, "digits")
    main = {run.logits for run in plan.list_main_runs("digits")}
    samplings = {f"scenario/{name}": settings["sampling"] for name, settings in SCENARIOS.items()}
    assert {run.case: run.sampling for run in runs} == samplings
    for run in runs:
        shared = run.method in plan.originals
        assert (run.logits in main) == shared
        place = "digits" if shared else f"digits/{run.case}"
        assert f"/models/{place}/seed" in run.record
        if shared:
            assert f"/models/digits/seed{run.seed}/full/" in run.training
        folder = f"results/default/forget/digits/{run.case}/seed{run.seed}"
        assert run.forget.startswith(f"{folder}/rate")
    assert {run.rate for run in runs if run.case == "scenario/clusters"} == {"0.1", "0.05"}
    # as named, however large
    assert {run.rate for run in runs if run.case == "scenario/three"} == {"0.0"}


def test_scenarios_do_not_change_the_forget_sets_of_the_main_run(plan: Plan):
    assert {run.sampling for run in plan.main} == {"stratified"}
    assert plan.forget_set("digits", 0, "rate0.1") == {
        "forget": "results/default/forget/digits/seed0/rate0.1.csv"
    }


def test_requests_are_described_and_methods_that_delete_rows_have_a_row_without_output(plan: Plan):
    exhibits = Exhibits(plan)
    scenarios = ScenarioPlan(exhibits)
    assert scenarios.describe_requests("digits") == {
        "scenario/three": "class 3",
        "scenario/clusters": "cluster",
        "scenario/hard": "hard",
    }
    further_rows = [row["name"] for row in scenarios.rows[len(exhibits.rows) :]]
    assert further_rows == ["munkey-off"]


@pytest.mark.parametrize(
    ("scenarios", "message"),
    [
        ({"a/b": {"sampling": "hard"}}, "becomes the name of a folder"),
        ({"x": {"sampling": "cluster", "names": ["3"]}}, "scenarios.x: forget"),
        ({"x": {"smapling": "class"}}, "smapling"),
    ],
)
def test_a_faulty_scenario_is_refused_before_any_job(scenarios: dict[str, object], message: str):
    with pytest.raises(ParamsError, match=message):
        small_plan({"scenarios": scenarios})


def test_names_in_the_main_run_are_refused():
    with pytest.raises(ParamsError, match=r"names .*`scenarios`"):
        small_plan({"forget.sampling": "class", "forget.names": ["3"]})
