"""Mirroring again refuses what it cannot mirror, before it touches the store."""

import pytest
import yaml

from munkey.cli.sync import main, results_of
from munkey.core.files import write_csv, write_json
from munkey.experiment.cost.estimate import read
from munkey.experiment.params.load import load
from munkey.experiment.plan.plan import Plan
from tests.conftest import ROOT
from tests.experiment.inputs import small_config


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with parameters and no results."""
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_results_it_says_what_makes_them(project):
    assert main([]) == "results/default/settings.json is missing: `make run` makes it"
    assert not (project / "mlflow.db").exists()


def made(plan, runs):
    """The settings and the metrics of a run, without anything else."""
    write_json(plan.layout.settings, {case: plan.export_settings(case) for case in plan.params.datasets})
    write_csv(plan.layout.all_metrics, [run.key | {"metric": "TA", "value": 1.0} for run in runs])


def test_results_of_other_parameters_are_refused(project):
    plan = Plan(load(read([])))
    made(plan, plan.main)
    write_json(plan.layout.settings, {"digits": {"inference": small_config()["inference"]}})
    said = main([])
    assert said is not None and said.startswith("the results were not made with the present parameters")
    assert not (project / "mlflow.db").exists()


def test_results_of_other_seeds_methods_or_rates_are_refused(project):
    plan = Plan(load(read([])))
    made(plan, plan.main)
    assert results_of(plan).evaluations == plan.main
    config = yaml.safe_load((project / "params.yaml").read_text())
    for changes in (
        {"seeds": [0, 1, 2, 3]},
        {"methods": ["knn", "cf"]},
        {"forget": config["forget"] | {"rates": [0.1]}},
    ):
        (project / "params.yaml").write_text(yaml.safe_dump(config | changes))
        said = main([])
        assert said is not None and said.startswith("the results were not made with the present parameters"), changes


def test_parameters_that_are_not_valid_are_refused(project):
    (project / "overlay.yaml").write_text("{name: other, seeds: many}")
    said = main(["overlay.yaml"])
    assert said is not None and "seeds" in said
