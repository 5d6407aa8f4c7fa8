"""The preprocessing that an encoder was published with."""

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
    """Resizes, center-crops and normalizes batches (B, 3, H, W) in [0, 1]; None: skips the step.

    resize: the length of the shortest edge in pixels, or the exact size. mean, std: of pixels in
    [0, 1], by channel. interpolation: a name of torchvision, e.g. `bicubic`.
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
            size = [self.resize]  # torchvision: one number is the shorter edge
            if isinstance(self.resize, PixelSize):
                size = list(self.resize)
            mode = InterpolationMode(self.interpolation)
            images = F.resize(images, size, interpolation=mode, antialias=True).clamp(0, 1)
        if self.crop:
            images = F.center_crop(images, list(self.crop))
        return F.normalize(images, self.mean, self.std)
