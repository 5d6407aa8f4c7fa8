"""`munkey mlflow`: `sync` refuses results of other parameters; `ui` shows the store that the parameters name."""

import os
import socket
import sys

import pytest
import yaml
from typer.testing import CliRunner

from munkey.cli.app import app
from munkey.cli.experiment import load_plan
from munkey.cli.mlflow import StaleResultsError, read_results
from munkey.core.files import write_csv, write_json
from munkey.core.knobs import dump_sections
from munkey.experiment.params.load import ParamsError
from munkey.experiment.tracking.store import StoreError
from tests.conftest import ROOT


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with parameters and no results."""
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words):
    """What the command prints, or the error that the front door tells."""
    result = CliRunner().invoke(app, ["mlflow", *words])
    if isinstance(result.exception, Exception):
        raise result.exception
    return result.output


def write_results(plan):
    """Write the settings and the metrics of a run, without anything else."""
    settings = {case: dump_sections(plan.export_settings(case)) for case in plan.params.datasets}
    write_json(plan.layout.settings, settings)
    metrics = [run.key | {"metric": "TA", "value": 1.0} for run in plan.main]
    metrics.append(metrics[-1] | {"method": f"{metrics[-1]['method']}-off"})  # of an emptied class
    write_csv(plan.layout.all_metrics, metrics)


def test_sync_without_results_names_the_command_that_makes_them(project):
    with pytest.raises(FileNotFoundError, match=r"settings\.json is missing; .*`make run`"):
        command("sync")
    (project / "overlay.yaml").write_text("{name: other, seeds: many}")
    with pytest.raises(ParamsError, match="seeds"):
        command("sync", "overlay.yaml")
    assert not (project / "mlflow.db").exists()


def test_results_of_other_parameters_are_refused_before_the_store_is_created(
    project,
):
    plan = load_plan([])
    write_results(plan)
    results = read_results(plan)
    assert results.evaluations == plan.main
    config = yaml.safe_load((project / "params.yaml").read_text())
    for changes in (
        {"seeds": [0, 1, 2, 3]},
        {"methods": ["knn", "cf"]},
        {"forget": config["forget"] | {"rates": [0.1]}},
        {"inference": config["inference"] | {"k": 1}},
    ):
        (project / "params.yaml").write_text(yaml.safe_dump(config | changes))
        with pytest.raises(StaleResultsError, match="parameters that differ"):
            command("sync")
    assert not (project / "mlflow.db").exists()


def test_sync_logs_the_results(project, monkeypatch):
    write_results(load_plan([]))
    tracking = "munkey.experiment.tracking"
    monkeypatch.setattr(f"{tracking}.runs.make_runs", lambda results: [results.layout.name])
    monkeypatch.setattr(f"{tracking}.mlflow_log.log", lambda *arguments: arguments)
    assert "('sqlite:///mlflow.db', 'default', ['default'])" in command("sync")


@pytest.fixture
def started_commands(project, monkeypatch):
    """The commands that replaced this process."""
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "true")
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, words: commands.append(words))
    return commands


@pytest.fixture
def port():
    """A free port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def test_mlflow_starts_on_the_store_of_the_overlay(started_commands, project, port):
    (project / "overlay.yaml").write_text("tracking: {uri: 'sqlite:///other.db'}")
    assert "This store is empty" in command("ui", "overlay.yaml", "--port", str(port))
    (words,) = started_commands
    server = f"{sys.executable} -m mlflow ui --workers 1 --port {port}"
    assert " ".join(words) == f"{server} --backend-store-uri sqlite:///other.db"
    assert (project / "other.db").exists()
    assert not (project / "mlflow.db").exists()


def test_an_unusable_store_is_named_and_nothing_starts(started_commands, project, port):
    (project / "mlflow.db").write_text("no database")
    with pytest.raises(StoreError, match=r"tracking\.uri = sqlite:///mlflow\.db"):
        command("ui", "--port", str(port))
    assert started_commands == []


def test_a_port_in_use_is_named_with_the_way_out_and_nothing_starts(started_commands, project):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=rf"port {port} .*make ui PORT={port + 1}"):
            command("ui", "--port", str(port))
    assert started_commands == []
    assert not (project / "mlflow.db").exists()


def test_a_server_is_not_started_again(started_commands, project, monkeypatch):
    def list_one_comparison(client, site):
        return {"results/default: digits": f"{site}/#/1"}

    monkeypatch.setattr(
        "munkey.experiment.tracking.mlflow_log.list_comparisons", list_one_comparison
    )
    (project / "overlay.yaml").write_text("tracking: {uri: 'http://127.0.0.1:5999'}")
    printed = "Compare methods at:\nresults/default: digits\n  http://127.0.0.1:5999/#/1\n"
    assert command("ui", "overlay.yaml") == printed
    assert started_commands == []
