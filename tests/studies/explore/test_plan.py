"""What the page for single samples is made from."""

from pathlib import Path
from typing import Any

from munkey.experiment.params.load import load
from munkey.experiment.plan.plan import Plan
from munkey.studies.explore.plan import ExplorePlan
from tests.conftest import changed


def test_a_page_reads_every_evaluation_and_every_memory_that_was_searched(
    config: dict[str, Any],
) -> None:
    plan = Plan(load(config))
    explored = ExplorePlan(plan)
    runs = explored.list_runs("digits", scenarios=False)
    assert runs == plan.list_main_runs("digits")
    near = explored.list_neighbor_files("digits", scenarios=False)
    assert set(near) == {"full"} | {f"{run.seed}/rate{run.rate}" for run in runs}
    with_scenarios = explored.list_neighbor_files("digits", scenarios=True)
    assert "0/scenario/class/rate0.1" in with_scenarios
    assert "scenario/class" in with_scenarios["0/scenario/class/rate0.1"]


def test_systems_with_a_memory_have_a_number_of_neighbors(config: dict[str, Any]) -> None:
    params = load(config)
    counts = ExplorePlan(Plan(params)).count_answering_neighbors("digits")
    assert counts["munkey"] == params.inference.k
    assert counts["knn"] == params.knn.k
    assert "lda" not in counts
    assert "cf" not in counts


def test_pictures_of_the_user_are_told_from_published_ones(
    config: dict[str, Any], tmp_path: Path
) -> None:
    assert not ExplorePlan(Plan(load(config))).is_own("digits")
    config = changed(config, "datasets", ["mine"])
    config["source"] |= {"reader": "imagefolder", "path": str(tmp_path)}
    assert ExplorePlan(Plan(load(config))).is_own("mine")
