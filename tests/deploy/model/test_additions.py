"""Rows that are added to a saved model of rows of numbers: what is refused, and leaves it unchanged."""

from pathlib import Path

import numpy as np
import pytest

import munkey
from munkey.deploy.model.manifest import EstimatorReference
from munkey.deploy.predictor import Predictor
from munkey.memory.memory_file import MemoryFile

ROWS = np.array([[1.0, 1.0], [2.0, 3.0], [-3.0, 1.0], [0.0, 2.0]])
CLASSES = ["cat", "dog", "cat", "dog"]


def save(folder: Path, **settings: object) -> Path:
    munkey.ForgettingNCM(temperature=1.0, **settings).fit(ROWS, CLASSES).save(folder)
    return folder


def test_a_row_beyond_the_bound_is_not_added(tmp_path):
    with Predictor.load(save(tmp_path / "model", norm=None, bound=64.0)) as model:
        with pytest.raises(ValueError, match=r"row 1, column 0: -1000 is beyond .* bound, 64"):
            model.add(np.array([[1.0, 2.0], [-1000.0, 5.0]]), ["cat", "dog"])
        assert len(model.ids) == 4
        model.add(np.array([[64.0, 5.0]]), ["dog"])
        assert len(model.ids) == 5


def test_a_class_that_another_process_forgets_meanwhile_gets_no_row(tmp_path, monkeypatch):
    folder = save(tmp_path / "model")
    change = MemoryFile.change
    with Predictor.load(folder) as model, Predictor.load(folder) as other:

        def forget_cats_first(*arguments, **options):
            monkeypatch.setattr(MemoryFile, "change", change)
            other.forget(other.select(labels=["cat"]).ids)
            other.purge()
            return change(*arguments, **options)

        monkeypatch.setattr(MemoryFile, "change", forget_cats_first)
        with pytest.raises(ValueError, match="the class cat was forgotten meanwhile"):
            model.add(ROWS[[0]], ["cat"])
        assert len(model.ids) == 2
    assert munkey.ForgettingNCM.load(folder).classes_.tolist() == ["dog"]


def test_samples_without_a_unit_cannot_be_selected_as_a_unit(tmp_path):
    with (
        Predictor.load(save(tmp_path / "model")) as model,
        pytest.raises(ValueError, match="units contains None"),
    ):
        model.select(units=[None])


def test_a_list_of_brightest_values_can_be_saved():
    parameters = {"white": [4095, 65535], "bound": 64.0, "norm": None}
    assert EstimatorReference(params=parameters).params == parameters
