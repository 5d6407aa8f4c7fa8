"""Mirroring again refuses what it cannot mirror, before it touches the store."""

import pytest

from munkey.core.files import write_json
from munkey.pipeline.track import main
from tests.conftest import ROOT
from tests.pipeline.inputs import small_config


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with parameters and no results."""
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_results_it_says_what_makes_them(project):
    assert main([]) == "results/default/settings.json is missing: `make run` makes it"
    assert not (project / "mlflow.db").exists()


def test_results_of_other_parameters_are_refused(project):
    write_json("results/default/settings.json", {"digits": {"inference": small_config()["inference"]}})
    said = main([])
    assert said is not None and said.startswith("the results were not made with the present parameters")
    assert not (project / "mlflow.db").exists()


def test_parameters_that_are_not_valid_are_refused(project):
    (project / "overlay.yaml").write_text("{name: other, seeds: many}")
    said = main(["overlay.yaml"])
    assert said is not None and "seeds" in said
