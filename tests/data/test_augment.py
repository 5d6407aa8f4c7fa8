"""Augmentation crops at random in training, and only resizes at test time."""

import torch

from munkey.data.augment import Augmentation
from munkey.data.resample import crop_resize, draw_boxes, normalize, resize
from munkey.settings import DataSettings, TrainSettings
from tests.conftest import generator

IMAGES = torch.rand(3, 3, 12, 12, generator=generator())


def test_augmentation_without_cropping_equals_the_transform_of_evaluation():
    augment = Augmentation(8, [1.0, 1.0], [1.0, 1.0], 0.4, 0.2)
    torch.testing.assert_close(augment(IMAGES, generator()), normalize(resize(IMAGES, 8), 0.4, 0.2))
    assert torch.equal(augment.eval_transform(IMAGES), normalize(resize(IMAGES, 8), 0.4, 0.2))


def test_augmentation_crops_boxes_drawn_from_its_generator():
    augment = Augmentation(8, [0.3, 0.6], [0.5, 2.0], 0.4, 0.2)
    boxes = draw_boxes(3, 12, 12, [0.3, 0.6], [0.5, 2.0], generator(1))
    assert torch.equal(
        augment(IMAGES, generator(1)), normalize(crop_resize(IMAGES, boxes, 8), 0.4, 0.2)
    )


def test_augmentation_is_made_from_the_settings(config):
    train = config["train"] | {"crop_scale": [0.3, 0.6], "crop_ratio": [0.5, 2.0]}
    data = DataSettings(image_size=8, pixel_mean=0.4, pixel_std=0.2)
    assert Augmentation.from_settings(data, TrainSettings(**train)) == Augmentation(
        8, [0.3, 0.6], [0.5, 2.0], 0.4, 0.2
    )
