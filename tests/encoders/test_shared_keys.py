"""Keys that another configuration made from the same are taken from there; from anything else, they are made anew."""

from pathlib import Path

import numpy as np
import pytest
import torch

from munkey.core.files import write_npz
from munkey.data.prepared import prepare
from munkey.data.source import SPLITS, Source
from munkey.encoders import keys
from munkey.encoders.registry import EncoderEntry
from munkey.jobs import keys as job
from munkey.settings import EncoderSettings

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 4, 4, 3), dtype=np.uint8)
SETTINGS = EncoderSettings(encoder="mean", revision=None, image_size=None, batch_size=4)


@pytest.fixture
def extract(tmp_path, monkeypatch):
    """Extract the keys of a configuration's pictures; whether the encoder was asked, and the keys."""
    monkeypatch.chdir(tmp_path)
    calls = []

    def build(settings, device):
        calls.append(settings)
        return lambda images: images.mean(dim=(2, 3))

    entry = EncoderEntry("mean", "", "own", None, None, lambda settings: None, build)
    monkeypatch.setattr(job, "build", entry.build)

    def extracted(
        name,
        images=IMAGES,
        settings=SETTINGS,
        code="keys.keys 1",
        weights="weights 1",
        dataset="pets",
    ):
        calls.clear()
        folder = Path("results") / name / "data" / dataset
        prepare(Source(images, np.arange(12) % 2, np.repeat(SPLITS, 4), ["cat", "dog"]), folder)
        file = Path("results") / name / "keys" / dataset / "mean" / "keys.npz"
        job.keys(folder / "images.npy", file, settings, "cpu", code, weights)
        return bool(calls), keys.read(file).keys

    return extracted


def test_equal_keys_are_computed_once_for_all_configurations_and_names_of_data_sets(
    extract, capsys
):
    is_computed, first = extract("a")
    again, taken = extract("b", dataset="my-pets")
    assert is_computed
    assert not again
    assert first.tobytes() == taken.tobytes()
    assert "copied from results/a/keys/pets/mean/keys.npz" in capsys.readouterr().out
    assert (
        Path("results/a/keys/pets/mean/keys.npz").read_bytes()
        == Path("results/b/keys/my-pets/mean/keys.npz").read_bytes()
    )
    assert not list(Path("cache").rglob("*.npy"))


def one_pixel_changed():
    images = IMAGES.copy()
    images[3, 0, 0, 0] ^= 1
    return images


@pytest.mark.parametrize(
    "change",
    [
        {"images": one_pixel_changed()},
        {"settings": SETTINGS.model_copy(update={"batch_size": 3})},
        {"settings": SETTINGS.model_copy(update={"image_size": 8})},
        {"weights": "weights 2"},
        {"code": "keys.keys 2"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_keys_are_computed_again_if_an_input_differs(extract, change):
    before = extract("a")
    after = extract("b", **change)
    assert before[0]
    assert after[0]
    expected = change.get("images", IMAGES).mean(axis=(1, 2))
    np.testing.assert_allclose(
        after[1], expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-5
    )


@pytest.mark.parametrize("what", ["distributions", "threads"])
def test_keys_are_computed_again_with_other_libraries_or_threads(extract, monkeypatch, what):
    extract("a")
    if what == "threads":
        monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    else:
        monkeypatch.setattr(job, "distributions", list)
    assert extract("b")[0]


def test_keys_of_unknown_weights_are_always_computed_again(extract):
    assert extract("a", weights=None)[0]
    assert extract("b", weights=None)[0]


@pytest.mark.parametrize("damage", ["other keys", "keys cut short", "no keys", "origin cut short"])
def test_damaged_keys_of_another_configuration_are_not_copied(extract, damage):
    """Other keys: those of a later job that was killed before it said what they were made from."""
    expected = extract("a")[1]
    file = Path("results/a/keys/pets/mean/keys.npz")
    origin = file.with_name(job.ORIGIN)
    if damage == "other keys":
        write_npz(file, {"ids": np.arange(12), "keys": np.roll(expected, 1, axis=0)})
    elif damage == "no keys":
        file.unlink()
    else:
        cut = origin if damage.startswith("origin") else file
        cut.write_bytes(cut.read_bytes()[:-4])
    is_computed, keys_of_b = extract("b")
    assert is_computed
    assert keys_of_b.tobytes() == expected.tobytes()


def test_keys_of_several_encoders_are_joined_from_those_of_each(extract):
    first = extract("a")[1]
    second = extract("b", settings=SETTINGS.model_copy(update={"image_size": 8}))[1]
    images = Path("results/a/data/pets/images.npy")
    files = [Path(f"results/{name}/keys/pets/mean/keys.npz") for name in ("a", "b")]
    whole = Path("results/a/keys/pets/both/keys.npz")
    job.keys(images, whole, SETTINGS, "cpu", parts=files)
    by_hand = np.concatenate([first, second], axis=1) / np.sqrt(2)
    np.testing.assert_allclose(keys.read(whole).keys, by_hand, atol=1e-6)
