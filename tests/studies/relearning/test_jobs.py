"""The job of relearning computes on the device that it is given."""

import pytest

from munkey.experiment.run.job import Surroundings
from munkey.models import system
from munkey.models.training_inputs import SampleFiles
from munkey.studies.relearning.jobs import relearn
from tests.jobs.inputs import prepared


def test_a_system_is_read_to_it(tmp_path, monkeypatch):
    def load(path, device="cpu"):
        raise InterruptedError(f"{path} to {device}")

    monkeypatch.setattr(system, "load", load)
    prepared(tmp_path / "data")
    files = SampleFiles(tmp_path / "data/images.npy", tmp_path / "forget.csv")
    with pytest.raises(InterruptedError, match="original to meta"):
        relearn(files, "original", tmp_path / "out", "digits", 0, {}, Surroundings("meta"))
