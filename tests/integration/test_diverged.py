"""What diverges costs its rows of the tables: all else is made, and the run says which, why, and in which log."""

import json

import pandas as pd
import pytest

from tests.integration.conftest import Project

METHOD = """
from dataclasses import replace

from munkey.models.family import System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method("nanify", title="NaNify", description="its own loop writes NaN", family="vit")
def nanify(system: System, request: Request, settings: Section) -> System:
    model = system.copy_model()
    next(iter(model.parameters())).data.mul_(float("nan"))
    return replace(system, model=model)
"""
LOGS = "logs/default/unlearn/digits/seed0/rate0.1"


def row(project: Project, title: str) -> list[str]:
    """The cells of a row of the main table."""
    lines = (project.path / "results/default/tables/main.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {title} ")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_methods_that_diverge_in_the_common_loop_and_in_one_of_their_own_cost_their_rows(
    finished: Project, project: Project
) -> None:
    (project.path / "src/munkey/unlearn/methods/nanify.py").write_text(METHOD)
    changed = {"cf": {"lr_factor": 1e12}, "nanify": {}}
    project.params({"methods": ["lda", "cf", "nanify", "munkey"], "unlearn": changed})
    done = project.snakemake()  # and ends with status 0
    said = " ".join(done.stdout.split())
    assert (
        f"CF @10%, seed 0: the loss of epoch 1 is nan: lower train.lr or the method's lr_factor; log: {LOGS}/cf.log"
        in said
    )
    assert (
        f"NaNify @10%, seed 0: NaN or infinity in 1 of 20 weight tensors, for example cls_token; log: {LOGS}/nanify.log"
        in said
    )
    for name in ("cf", "nanify"):
        assert "diverged: " in (project.path / LOGS / f"{name}.log").read_text()
    for title in ("CF", "NaNify"):
        assert row(project, title) == ["diverged", "–", "–", "–", "diverged"]
    for title in ("Original (T)", "Retrain (M)", "LDA", "MUNKEY"):
        assert row(project, title) == row(finished, title)
    tracking = json.loads((project.path / "results/default/tracking.json").read_text())
    assert tracking["failure"] is None and "CF @0.1 seed 0" in {
        run["name"] for run in tracking["runs"]
    }
    assert project.planned() == {}


@pytest.mark.ci
def test_where_originals_diverge_so_does_all_that_starts_from_them_and_the_rest_is_made(
    finished: Project, project: Project
) -> None:
    project.params({"train": {"lr": 1e12}})
    project.snakemake("--", "all", "results/default/figures/forgetting.svg")
    assert row(project, "LDA") == row(finished, "LDA")
    for title in ("Original (T)", "Retrain (T)", "Original (M)", "Retrain (M)", "CF", "MUNKEY"):
        assert row(project, title) == ["diverged", "–", "–", "–", "diverged"]
    text = (project.path / "results/default/tables/main.md").read_text()
    log = "log: logs/default/train/digits/seed0/full/original-t.log"
    why = f"the loss of epoch 1 is nan: lower train.lr or the method's lr_factor; {log}"
    assert f"Original (T) @10%, CF @10%, seed 0: {why}" in text
    tidy = pd.read_csv(project.path / "results/default/metrics.csv")
    assert set(tidy.loc[tidy["metric"] == "diverged", "method"]) >= {
        "original-t",
        "retrain-t",
        "cf",
        "munkey",
    }
