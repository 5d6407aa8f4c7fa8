"""MLflow stores for the tests of the log."""

import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without runs: making one takes MLflow seconds."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def checkout(_empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an empty store, mlflow.db; the current one."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copy(_empty_store, folder / "mlflow.db")
    monkeypatch.chdir(folder)
    return folder
