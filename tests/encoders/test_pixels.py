"""Pixels as a key: whole numbers, of each picture alone."""

import numpy as np
import torch

from munkey.encoders.keys import extract
from munkey.encoders.registry import ENCODERS
from tests.encoders.inputs import settings


def encode(images, side):
    return ENCODERS["pixels"].build(settings("pixels", side), "cpu")(images)


def test_the_key_of_a_picture_of_the_size_is_its_pixels_as_whole_numbers():
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (5, 3, 8, 8))
    expected = torch.from_numpy(images + 1).flatten(1).float()
    assert encode(torch.from_numpy(images) / 255, 8).equal(expected)


def test_the_key_of_a_larger_picture_is_the_mean_of_each_area_in_any_batch():
    images = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    means = images.reshape(6, 3, 8, 4, 8, 4).mean(dim=(3, 5))
    keys = encode(images, 8)
    assert (keys - 1 - 255 * means.flatten(1)).abs().max() <= 0.5 + 1e-3
    alone = torch.cat([encode(images[row : row + 1], 8) for row in range(6)])
    assert alone.equal(keys)
    assert keys.equal(keys.round())


def test_a_black_picture_has_a_key():
    black = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    keys = extract(lambda images: encode(images, 8), black, 2, "cpu", lambda starts: starts)
    np.testing.assert_allclose(np.linalg.norm(keys, axis=1), 1, atol=1e-6)
