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


SEARCH = "results/default/search/digits/seed0/rate0.1"


@pytest.mark.parametrize("method", ["cf", "ssd"])
def test_every_candidate_is_stored_and_the_best_one_is_the_result(
    searched: Project, method: str
) -> None:
    folder = searched.path / SEARCH / method
    search = json.loads((folder / "search.json").read_text())
    best = search["candidates"][search["chosen"]]
    result = searched.path / f"results/default/models/digits/seed0/rate0.1/{method}"
    assert len(search["candidates"]) == 2
    folder_of_best = folder / str(search["chosen"])
    best_system = (folder_of_best / "system.safetensors").read_bytes()
    assert (result / "system.safetensors").read_bytes() == best_system
    record = json.loads((result / "record.json").read_text())
    assert record["settings"]["method"] == best["settings"]
    assert record["unlearn_s"] == best["unlearn_s"]
    assert record["search_s"] > sum(candidate["unlearn_s"] for candidate in search["candidates"])
    for candidate in search["candidates"]:
        gap = abs(candidate["val_accuracy"] - candidate["forget_accuracy"])
        assert candidate["gap"] == pytest.approx(gap)


def test_the_runtime_table_has_the_seconds_of_the_search_and_of_unlearning(
    searched: Project,
) -> None:
    table = (searched.path / "results/default/tables/runtime.md").read_text()
    lines = []
    for line in table.splitlines():
        if "--" not in line:
            lines.append([cell.strip() for cell in line.split("|")[1:-1]])
    rows = pd.DataFrame(lines[1:], columns=lines[0]).set_index("Method")
    assert float(rows.loc["CF", "Search [s]"]) > float(rows.loc["CF", "Unlearn [s]"])
    assert rows.loc["SISA", "Search [s]"] == "–"


def test_sisa_equals_its_oracle_to_the_bit(searched: Project) -> None:
    models = searched.path / "results/default/models/digits/seed0/rate0.1"
    oracle = (models / "retrain-s/system.safetensors").read_bytes()
    assert (models / "sisa/system.safetensors").read_bytes() == oracle
    tidy = pd.read_csv(searched.path / "results/default/metrics.csv")
    gap = tidy[(tidy["method"] == "sisa") & (tidy["metric"] == "gap")]["value"]
    assert gap.tolist() == [0.0]
    assert {"original-s", "retrain-s"} <= set(tidy["method"])


def test_another_value_in_the_grid_adds_one_candidate(searched: Project, tmp_path: Path) -> None:
    project = searched.copy(tmp_path / "project")
    project.params({"search_grid": GRID | {"lr_factor": [0.1, 1.0, 0.5]}})
    planned = project.planned()
    assert planned["unlearn_candidate"] == 1
    assert planned["search"] == 1
    assert not {"train", "unlearn"} & set(planned)
