"""A method that diverges loses its rows of the tables: all else is made, and the run names method, reason and log."""

import json
import re

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
    [line] = [line for line in lines if line.startswith(f"| {title} ")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_methods_that_diverge_are_marked_and_all_others_are_measured(
    finished: Project, project: Project
) -> None:
    (project.path / "src/munkey/unlearn/methods/nanify.py").write_text(METHOD)
    changed = {"cf": {"lr_factor": 1e12}, "nanify": {}}
    project.params({"methods": ["lda", "cf", "nanify", "munkey"], "unlearn": changed})
    done = project.snakemake()  # and ends with status 0
    output = " ".join(done.stdout.split())
    assert "CF @10%, seed 0: the loss of" in output
    assert f"log: {LOGS}/cf.log" in output
    assert "NaNify @10%, seed 0: NaN or infinity" in output
    assert f"log: {LOGS}/nanify.log" in output
    for name in ("cf", "nanify"):
        assert "diverged: " in (project.path / LOGS / f"{name}.log").read_text()
    for title in ("CF", "NaNify"):
        assert row(project, title) == ["diverged", "–", "–", "–", "diverged"]
    for title in ("Original (T)", "Retrain (M)", "LDA", "MUNKEY"):
        assert row(project, title) == row(finished, title)
    tracking = json.loads((project.path / "results/default/tracking.json").read_text())
    assert tracking["failure"] is None
    assert "CF @0.1 seed 0" in {run["name"] for run in tracking["runs"]}
    assert project.planned() == {}


@pytest.mark.ci
def test_if_originals_diverge_all_that_starts_from_them_is_marked_and_the_rest_is_measured(
    finished: Project, project: Project
) -> None:
    project.params({"train": {"lr": 1e12}})
    project.snakemake("--", "all", "results/default/figures/forgetting.svg")
    assert row(project, "LDA") == row(finished, "LDA")
    for title in ("Original (T)", "Retrain (T)", "Original (M)", "Retrain (M)", "CF", "MUNKEY"):
        assert row(project, title) == ["diverged", "–", "–", "–", "diverged"]
    text = (project.path / "results/default/tables/main.md").read_text()
    log = "log: logs/default/train/digits/seed0/full/original-t.log"
    [reason] = re.findall(r"Original \(T\) @10%, CF @10%, seed 0: .*", text)
    assert "the loss of epoch 1 is nan" in reason
    assert log in reason
    tidy = pd.read_csv(project.path / "results/default/metrics.csv")
    diverged = set(tidy.loc[tidy["metric"] == "diverged", "method"])
    assert {"original-t", "retrain-t", "cf", "munkey"} <= diverged
