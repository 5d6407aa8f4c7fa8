"""An export, made once, and copies of it to change."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from munkey.data.prepared import Dataset, load
from munkey.deploy.model.export import export
from munkey.deploy.predictor import Predictor
from tests.deploy.inputs import encoder_loaded_once, result_in


@pytest.fixture(scope="session", autouse=True)
def _encoder_loaded_once() -> Iterator[None]:
    with encoder_loaded_once():
        yield


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny trained MUNKEY whose source files are known. Not to be changed."""
    folder = tmp_path_factory.mktemp("run")
    return result_in(folder / "results" / "tiny", folder / "pictures")


@pytest.fixture(scope="session")
def exported(result: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its export. Not to be changed."""
    return export(result, tmp_path_factory.mktemp("exported") / "model")


@pytest.fixture
def directory(exported: Path, tmp_path: Path) -> Path:
    """A copy of the export to change."""
    return Path(shutil.copytree(exported, tmp_path / "model"))


@pytest.fixture
def predictor(directory: Path) -> Iterator[Predictor]:
    """Open for writing."""
    with Predictor.load(directory, device="cpu") as opened:
        yield opened


@pytest.fixture(scope="session")
def images(result: Path) -> Dataset:
    """The data set that it was trained on."""
    return load(result.parents[4] / "data" / "toy")
