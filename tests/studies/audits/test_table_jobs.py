"""The jobs of audits."""

import pytest

from munkey.models import system
from munkey.studies.audits import table_jobs
from tests.jobs.inputs import prepare_dataset, write_keys


def test_two_versions_are_loaded_to_the_device(tmp_path, monkeypatch):
    def load(path, device="cpu"):
        raise InterruptedError(f"{path} to {device}")

    monkeypatch.setattr(system, "load", load)
    dataset = prepare_dataset(tmp_path / "data")
    files = tmp_path / "data/images.npy", *write_keys(tmp_path, dataset, 6)
    outputs = [tmp_path / name for name in ("table.csv", "table.md")]
    with pytest.raises(InterruptedError, match="original to meta"):
        table_jobs.differencing(*files, ["original"], *outputs, "digits", {"lda": {}}, "meta")
    for output in outputs:
        assert not output.exists()
