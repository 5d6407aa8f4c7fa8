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


def test_scenarios_share_originals_and_their_answers_and_have_forget_sets_oracles_and_methods_of_their_own(
    plan: Plan,
):
    runs = list_scenario_runs(plan, "digits")
    main = {run.logits for run in plan.list_main_runs("digits")}
    sampling = {f"scenario/{name}": each["sampling"] for name, each in SCENARIOS.items()}
    assert {run.case: run.sampling for run in runs} == sampling
    for run in runs:
        shared = run.method in plan.originals
        assert (run.logits in main) == shared
        place = "digits" if shared else f"digits/{run.case}"
        assert (
            f"/models/{place}/seed" in run.record
            and f"/models/digits/seed{run.seed}/full/" in run.training
        ) or not shared
        assert run.forget.startswith(
            f"results/default/forget/digits/{run.case}/seed{run.seed}/rate"
        )
    assert {run.rate for run in runs if run.case == "scenario/clusters"} == {"0.1", "0.05"}
    # as named, however large
    assert {run.rate for run in runs if run.case == "scenario/three"} == {"0.0"}


def test_the_main_run_draws_at_random_as_before(plan: Plan):
    assert {run.sampling for run in plan.main} == {"stratified"}
    assert plan.forget_set("digits", 0, "rate0.1") == {
        "forget": "results/default/forget/digits/seed0/rate0.1.csv"
    }


def test_what_is_forgotten_is_said_and_outputs_are_switched_off_of_what_deletes_rows(plan: Plan):
    exhibits = Exhibits(plan)
    scenarios = ScenarioPlan(exhibits)
    assert scenarios.describe_requests("digits") == {
        "scenario/three": "class 3",
        "scenario/clusters": "cluster",
        "scenario/hard": "hard",
    }
    more = [row["name"] for row in scenarios.rows[len(exhibits.rows) :]]
    assert more == ["munkey-off"]


@pytest.mark.parametrize(
    ("scenarios", "message"),
    [
        ({"a/b": {"sampling": "hard"}}, "becomes the name of a folder"),
        ({"x": {"sampling": "cluster", "names": ["3"]}}, "scenarios.x: forget"),
        ({"x": {"smapling": "class"}}, "smapling"),
    ],
)
def test_faults_of_scenarios_are_named_before_any_job(scenarios: dict[str, object], message: str):
    with pytest.raises(ParamsError, match=message):
        small_plan({"scenarios": scenarios})


def test_names_do_not_stand_in_the_main_run():
    with pytest.raises(ParamsError, match="names can only be set in a case of `scenarios`"):
        small_plan({"forget.sampling": "class", "forget.names": ["3"]})
