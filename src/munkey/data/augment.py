"""What training does to an image before the model sees it (app. B.3)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from munkey.data.resample import crop_resize, normalize, random_boxes, resize
from munkey.settings import DataSettings, TrainSettings


@dataclass(frozen=True)
class Augmentation:
    """Random-resized-crop to the model's size, then normalization; nothing else (app. B.3).

    Attributes
    ----------
    size
        Side of the result in pixels.
    scale, ratio
        Ranges of a crop's share of the area and of its aspect ratio.
    mean, std
        Mean and standard deviation of pixels in [0, 1].
    """

    size: int
    scale: list[float]
    ratio: list[float]
    mean: float
    std: float

    @classmethod
    def from_settings(cls, data: DataSettings, train: TrainSettings) -> "Augmentation":
        return cls(
            data.image_size, train.crop_scale, train.crop_ratio, data.pixel_mean, data.pixel_std
        )

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment images (B, 3, H, W) in [0, 1] to (B, 3, size, size). Differentiable."""
        boxes = random_boxes(
            len(images), images.shape[2], images.shape[3], self.scale, self.ratio, generator
        )
        return normalize(crop_resize(images, boxes, self.size), self.mean, self.std)

    def eval_transform(self, images: Tensor) -> Tensor:
        """Resize and normalize images as a model sees them at test time. Differentiable."""
        return normalize(resize(images, self.size), self.mean, self.std)
