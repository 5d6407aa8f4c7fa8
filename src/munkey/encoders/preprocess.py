"""The published preprocessing of an encoder."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class PixelSize(NamedTuple):
    """Height and width in pixels."""

    height: int
    width: int


@dataclass(frozen=True)
class Preprocess:
    """Resize, center-crop and normalize batches (B, 3, H, W) in [0, 1].

    Attributes
    ----------
    resize
        The length of the shorter edge in pixels, or the exact size. None to skip this step.
    crop
        The size of the crop. None to skip this step.
    mean, std
        Those of each channel.
    interpolation
        Torchvision's name, such as `bicubic`.
    """

    resize: int | PixelSize | None
    crop: PixelSize | None
    mean: list[float]
    std: list[float]
    interpolation: str

    def __call__(self, images: "Tensor") -> "Tensor":
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms.v2 import functional as F

        if self.resize:
            if isinstance(self.resize, PixelSize):
                size = list(self.resize)
            else:
                size = [self.resize]  # to torchvision, a single number is the shorter edge
            mode = InterpolationMode(self.interpolation)
            images = F.resize(images, size, interpolation=mode, antialias=True).clamp(0, 1)
        if self.crop:
            images = F.center_crop(images, list(self.crop))
        return F.normalize(images, self.mean, self.std)
