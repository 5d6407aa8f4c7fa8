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
from tests.jobs.inputs import prepare_dataset


def test_keys_are_extracted_on_the_device_and_its_name_is_written_beside_them(
    tmp_path, monkeypatch
):
    calls = []
    settings = EncoderSettings(encoder="any", image_size=None, revision=None, batch_size=64)

    def extract(encode, images, size, device, progress, blocks):
        calls.append((encode, device))
        blocks.mkdir(parents=True)
        return unit_rows(len(images), 4)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gpu, "get_name", lambda: "a card")
    monkeypatch.setattr(keys, "extract", extract)
    monkeypatch.setattr(keys, "build", lambda _, device: f"encoder on {device}")
    prepare_dataset(tmp_path / "data")
    for device in ("cuda", "cpu"):
        keys.keys(tmp_path / "data/images.npy", tmp_path / device / "keys.npz", settings, device)
    assert calls == [("encoder on cuda", "cuda"), ("encoder on cpu", "cpu")]
    assert read_json(tmp_path / "cuda" / keys.ORIGIN)["device"] == "a card"
    assert read_json(tmp_path / "cpu" / keys.ORIGIN)["device"] != "a card"


@pytest.fixture
def interrupted_load(monkeypatch):
    """Loading a system raises InterruptedError, which names the device."""

    def load(path, device="cpu"):
        raise InterruptedError(f"{path} to {device}")

    monkeypatch.setattr(system, "load", load)


@pytest.mark.usefixtures("interrupted_load")
def test_a_system_is_loaded_to_the_device(tmp_path):
    prepare_dataset(tmp_path / "data")
    images = tmp_path / "data/images.npy"
    out = tmp_path / "out"
    with pytest.raises(InterruptedError, match="original to meta"):
        evaluate.evaluate(SampleFiles(images), "original", out, {}, Surroundings("meta"))
