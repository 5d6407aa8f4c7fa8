"""The jobs of audits."""

import pytest

from munkey.models import system
from munkey.studies.audits import table_jobs
from tests.jobs.inputs import keyed, prepared


def test_whoever_holds_two_versions_holds_them_there(tmp_path, monkeypatch):
    def load(path, device="cpu"):
        raise InterruptedError(f"{path} to {device}")

    monkeypatch.setattr(system, "load", load)
    dataset = prepared(tmp_path / "data")
    files = tmp_path / "data/images.npy", *keyed(tmp_path, dataset, 6)
    outputs = [tmp_path / name for name in ("table.csv", "table.md")]
    with pytest.raises(InterruptedError, match="original to meta"):
        table_jobs.differencing(*files, ["original"], *outputs, "digits", {"lda": {}}, "meta")
    assert not any(output.exists() for output in outputs)
