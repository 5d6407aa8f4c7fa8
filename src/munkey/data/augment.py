"""Image augmentation during training (the paper's app. B.3)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from munkey.data.resample import crop_resize, draw_boxes, normalize, resize
from munkey.settings import DataSettings, TrainSettings


@dataclass(frozen=True)
class Augmentation:
    """Random-resized-crop to `size` pixels, then normalization of pixels in [0, 1].

    `scale` and `ratio` are the ranges of the crop's area, as a share of the image, and aspect
    ratio.
    """

    size: int
    scale: list[float]
    ratio: list[float]
    mean: float
    std: float

    @classmethod
    def from_settings(cls, data: DataSettings, train: TrainSettings) -> "Augmentation":
        return cls(
            size=data.image_size,
            scale=train.crop_scale,
            ratio=train.crop_ratio,
            mean=data.pixel_mean,
            std=data.pixel_std,
        )

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment images (B, 3, H, W) in [0, 1] to (B, 3, size, size), differentiably."""
        boxes = draw_boxes(
            len(images), images.shape[2], images.shape[3], self.scale, self.ratio, generator
        )
        return normalize(crop_resize(images, boxes, self.size), self.mean, self.std)

    def eval_transform(self, images: Tensor) -> Tensor:
        """Resize and normalize images (B, 3, H, W) in [0, 1] to (B, 3, size, size), differentiably."""
        return normalize(resize(images, self.size), self.mean, self.std)
