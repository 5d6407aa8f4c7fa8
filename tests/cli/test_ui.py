"""`make ui` shows the store that the parameters name."""

import os
import sys

import pytest

from munkey.cli.ui import main
from tests.conftest import ROOT


@pytest.fixture
def started(tmp_path, monkeypatch):
    """In a folder with parameters and no results: the commands that took the place of this one."""
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "true")
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, command: commands.append(command))
    return commands


def test_mlflow_starts_on_the_store_of_the_overlay(started, tmp_path, capsys):
    (tmp_path / "overlay.yaml").write_text("tracking: {uri: 'sqlite:///other.db'}")
    assert main(["overlay.yaml"]) is None
    assert "This store is empty" in capsys.readouterr().out
    (command,) = started
    assert " ".join(command) == f"{sys.executable} -m mlflow ui --workers 1 --backend-store-uri sqlite:///other.db"
    assert (tmp_path / "other.db").exists() and not (tmp_path / "mlflow.db").exists()


def test_a_store_that_cannot_be_used_is_named_and_nothing_starts(started, tmp_path):
    (tmp_path / "mlflow.db").write_text("no database")
    said = main([])
    assert said is not None and "tracking.uri = sqlite:///mlflow.db cannot be used" in said
    assert started == []


def test_a_server_is_not_started_again(started, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("munkey.cli.ui.addresses", lambda uri: [f"views of {uri}"])
    (tmp_path / "overlay.yaml").write_text("tracking: {uri: 'http://127.0.0.1:5999'}")
    assert main(["overlay.yaml"]) is None
    assert capsys.readouterr().out == "views of http://127.0.0.1:5999\n" and started == []
