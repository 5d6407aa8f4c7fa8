"""Exports of a real run: made by the DAG, they answer as the run did, before and after deletion."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from munkey.core.files import read_npz
from munkey.data import forget_sets
from munkey.data.prepared import load
from munkey.deploy.model.export import export
from munkey.deploy.predictor import Predictor
from tests.integration.conftest import Project


@pytest.fixture(scope="module")
def exports(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = finished.copy(tmp_path_factory.mktemp("exports") / "project")
    project.make("exports")
    return project


def test_an_export_equals_the_run_to_the_bit_before_and_after_deletion(
    exports: Project, tmp_path: Path
) -> None:
    results = exports.path / "results" / "default"
    dataset = load(results / "data" / "digits")
    test = dataset.get_ids("test")
    before = read_npz(results / "logits/digits/seed0/full/original-m.npz")["logits"]
    after = read_npz(results / "logits/digits/seed0/rate0.1/munkey.npz")["logits"]
    directory = shutil.copytree(results / "exports/digits/seed0", tmp_path / "model")
    with Predictor.load(directory, device="cpu") as model:
        assert np.array_equal(model.predict(dataset.images[test]).logits, before[test])
        model.forget(forget_sets.read(results / "forget/digits/seed0/rate0.1.csv"))
        assert np.array_equal(model.predict(dataset.images[test]).logits, after[test])
        assert model.verify().sound


def test_any_munkey_of_a_run_is_exported_by_its_name(
    exports: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(exports.path)
    for name in ("default/digits/seed0/rate0.1/munkey", "default/digits/seed0/rate0.1/retrain-m"):
        directory = export(name, tmp_path / Path(name).name)
        assert "| FA, accuracy on the forget set" in (directory / "README.md").read_text()


@pytest.mark.ci
def test_an_export_in_use_is_not_made_again_with_other_settings(
    exports: Project, tmp_path: Path
) -> None:
    assert exports.planned("--", "exports") == {}
    project = exports.copy(tmp_path / "project")
    directory = project.path / "results/default/exports/digits/seed0"
    with Predictor.load(directory) as model:
        model.forget(model.ids[:1])
        remaining_ids = model.ids
        head = model.head
    project.params({"inference": {"k": 2}})
    refused = project.make("exports", check=False)
    assert refused.returncode != 0
    assert "is in use (samples were forgotten" in refused.stderr
    assert project.planned("--", "exports")["export"] == 1  # it is still that of another K
    with Predictor.load(directory) as model:
        assert np.array_equal(model.ids, remaining_ids)
        assert model.verify(head).sound
