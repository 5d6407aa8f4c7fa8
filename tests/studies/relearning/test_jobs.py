"""The job of relearning computes on the device that it is given."""

import pytest

from munkey.experiment.run.job import Surroundings
from munkey.models import system
from munkey.models.training_inputs import SampleFiles
from munkey.studies.relearning.jobs import relearn
from tests.jobs.inputs import prepare_dataset


def test_a_system_is_loaded_to_the_device(tmp_path, monkeypatch):
    def load(path, device="cpu"):
        raise InterruptedError(f"{path} to {device}")

    monkeypatch.setattr(system, "load", load)
    prepare_dataset(tmp_path / "data")
    files = SampleFiles(tmp_path / "data/images.npy", tmp_path / "forget.csv")
    with pytest.raises(InterruptedError, match="original to meta"):
        relearn(files, "original", tmp_path / "out", "digits", 0, {}, Surroundings("meta"))
