"""The search for settings on the tiny grid, and SISA with an original and an oracle of its own."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.integration.conftest import Project

pytestmark = pytest.mark.ci
GRID = {"lr_factor": [0.1, 1.0], "ssd.alpha": [1.0, 5.0], "ssd.lam": [1.0]}


@pytest.fixture(scope="module")
def searched(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = finished.copy(tmp_path_factory.mktemp("searched") / "project")
    project.params({"search": True, "methods": ["cf", "ssd", "sisa"], "search_grid": GRID})
    project.snakemake()
    return project


def found(project: Project, method: str) -> dict:
    return json.loads(
        (
            project.path / f"results/default/search/digits/seed0/rate0.1/{method}/search.json"
        ).read_text()
    )


@pytest.mark.parametrize("method", ["cf", "ssd"])
def test_every_candidate_is_kept_and_the_chosen_one_is_the_result(
    searched: Project, method: str
) -> None:
    told = found(searched, method)
    folder = searched.path / f"results/default/search/digits/seed0/rate0.1/{method}"
    result = searched.path / f"results/default/models/digits/seed0/rate0.1/{method}"
    assert len(told["candidates"]) == 2
    chosen = folder / str(told["chosen"])
    assert (result / "system.safetensors").read_bytes() == (
        chosen / "system.safetensors"
    ).read_bytes()
    record = json.loads((result / "record.json").read_text())
    assert record["settings"]["method"] == told["candidates"][told["chosen"]]["settings"]
    assert record["unlearn_s"] == told["candidates"][told["chosen"]]["unlearn_s"]
    assert record["search_s"] > sum(c["unlearn_s"] for c in told["candidates"])
    for candidate in told["candidates"]:
        assert candidate["gap"] == pytest.approx(
            abs(candidate["val_accuracy"] - candidate["forget_accuracy"])
        )


def test_the_time_of_the_search_stands_beside_the_time_of_unlearning(searched: Project) -> None:
    table = (searched.path / "results/default/tables/runtime.md").read_text()
    header, *lines = [
        [c.strip() for c in line.split("|")[1:-1]]
        for line in table.splitlines()
        if "--" not in line
    ]
    rows = {line[header.index("Method")]: dict(zip(header, line, strict=True)) for line in lines}
    assert float(rows["CF"]["Search [s]"]) > float(rows["CF"]["Unlearn [s]"])
    assert rows["SISA"]["Search [s]"] == "–"


def test_sisa_is_exactly_its_oracle(searched: Project) -> None:
    models = searched.path / "results/default/models/digits/seed0/rate0.1"
    assert (models / "sisa/system.safetensors").read_bytes() == (
        models / "retrain-s/system.safetensors"
    ).read_bytes()
    tidy = pd.read_csv(searched.path / "results/default/metrics.csv")
    gap = tidy[(tidy["method"] == "sisa") & (tidy["metric"] == "gap")]["value"]
    assert gap.tolist() == [0.0]
    assert {"original-s", "retrain-s"} <= set(tidy["method"])


def test_one_more_value_in_the_grid_tries_that_one_only(searched: Project, tmp_path: Path) -> None:
    project = searched.copy(tmp_path / "project")
    project.params({"search_grid": GRID | {"lr_factor": [0.1, 1.0, 0.5]}})
    planned = project.planned()
    assert (planned["unlearn_candidate"], planned["search"]) == (1, 1)
    assert not {"train", "unlearn"} & set(planned)
