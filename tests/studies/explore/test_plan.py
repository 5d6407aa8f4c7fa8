"""What the page for single samples is made from."""

from pathlib import Path
from typing import Any

import pytest

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


def test_systems_that_look_up_neighbors_say_how_many(config: dict[str, Any]) -> None:
    params = load(config)
    counts = ExplorePlan(Plan(params)).count_answering_neighbors("digits")
    assert counts["munkey"] == params.inference.k
    assert counts["knn"] == params.knn.k
    assert "lda" not in counts
    assert "cf" not in counts


@pytest.mark.parametrize(("dataset", "own"), [("digits", False), ("mine", True)])
def test_pictures_of_a_users_own_are_told_from_published_ones(
    config: dict[str, Any], tmp_path: Path, dataset: str, own: bool
) -> None:
    source = {"reader": "imagefolder", "path": str(tmp_path)} if own else {}
    config = changed(config, "datasets", [dataset])
    config["source"] = config["source"] | source
    assert ExplorePlan(Plan(load(config))).is_own(dataset) == own
