"""A job computes on the device that it is given, and notes which one that was."""

import pytest

from munkey.core import gpu
from munkey.core.files import read_json
from munkey.experiment.run.job import Surroundings
from munkey.jobs import evaluate, keys
from munkey.models import system
from munkey.models.training_inputs import SampleFiles
from munkey.settings import EncoderSettings
from tests.conftest import unit_rows
from tests.jobs.inputs import prepared


def test_keys_are_extracted_there_and_its_name_is_kept_beside_them(tmp_path, monkeypatch):
    asked, settings = (
        [],
        EncoderSettings(encoder="any", image_size=None, revision=None, batch_size=64),
    )

    def extract(encode, images, size, device, progress, blocks):
        asked.append((encode, device))
        blocks.mkdir(parents=True)
        return unit_rows(len(images), 4)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu, "get_name", lambda: "a card")
    monkeypatch.setattr(keys, "extract", extract)
    monkeypatch.setattr(keys, "build", lambda _, device: f"encoder on {device}")
    prepared(tmp_path / "data")
    for device in ("cuda", "cpu"):
        keys.keys(tmp_path / "data/images.npy", tmp_path / device / "keys.npz", settings, device)
    made = [read_json(tmp_path / device / keys.ORIGIN)["device"] for device in ("cuda", "cpu")]
    assert asked == [("encoder on cuda", "cuda"), ("encoder on cpu", "cpu")]
    assert made[0] == "a card" != made[1]


@pytest.fixture
def read_to(monkeypatch):
    """Ends where a system is read, and says to which device."""

    def load(path, device="cpu"):
        raise InterruptedError(f"{path} to {device}")

    monkeypatch.setattr(system, "load", load)


@pytest.mark.usefixtures("read_to")
def test_a_system_is_read_to_it(tmp_path):
    prepared(tmp_path / "data")
    images, out = tmp_path / "data/images.npy", tmp_path / "out"
    with pytest.raises(InterruptedError, match="original to meta"):
        evaluate.evaluate(SampleFiles(images), "original", out, {}, Surroundings("meta"))
