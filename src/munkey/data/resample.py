"""Batched cropping, resizing and normalization, and the boxes of random-resized-crop.

Each box becomes two small weight matrices (antialiased bilinear, as in torchvision and Pillow), so
a batch with a different box per image takes two batched matrix products on any device.
"""

import math

import torch
from torch import Tensor

from munkey.core.device import to_device
from munkey.core.gpu import autocast

DRAWS = 10  # boxes drawn per image before falling back to the central one, as in torchvision


def crop_resize(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Crop a box from each image (B, 3, H, W) and resize it to size x size.

    Equals torchvision's `resized_crop(antialias=True)` for each box. `boxes`: (B, 4) integers, top,
    left, height, width.
    """
    top, left, height, width = to_device(boxes.float(), images.device.type).unbind(1)
    rows = _compute_resampling_weights(top, height, images.shape[2], size)  # (B, size, H)
    columns = _compute_resampling_weights(left, width, images.shape[3], size)  # (B, size, W)
    with autocast(torch.float32, images.device.type):  # bfloat16 has less precision than a pixel
        return rows[:, None] @ images @ columns[:, None].mT


def resize(images: Tensor, size: int) -> Tensor:
    """Resize whole images (B, 3, H, W) to size x size, without cropping."""
    if images.shape[2:] == (size, size):
        return images
    box = torch.tensor([[0, 0, images.shape[2], images.shape[3]]])
    return crop_resize(images, box, size)


def normalize(images: Tensor, mean: float, std: float) -> Tensor:
    return (images - mean) / std


def draw_boxes(
    count: int,
    height: int,
    width: int,
    scale: list[float],
    ratio: list[float],
    generator: torch.Generator,
) -> Tensor:
    """Draw boxes (count, 4) int64 as torchvision's `RandomResizedCrop` does.

    A box is (top, left, height, width). `scale` is the range of the area, as a share of the image,
    `ratio` that of the aspect ratio, drawn log-uniformly. Each image gets the first draw inside it,
    or else the largest central crop.
    """
    area = height * width * torch.empty(count, DRAWS).uniform_(*scale, generator=generator)
    aspect = (
        torch.empty(count, DRAWS)
        .uniform_(math.log(ratio[0]), math.log(ratio[1]), generator=generator)
        .exp()
    )
    w = (area * aspect).sqrt().round().long()  # (count, DRAWS)
    h = (area / aspect).sqrt().round().long()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first_fit = fits.int().argmax(dim=1, keepdim=True)  # argmax returns the first maximum
    h = h.gather(1, first_fit)[:, 0]  # (count,)
    w = w.gather(1, first_fit)[:, 0]
    top = (torch.rand(count, generator=generator) * (height - h + 1)).long()
    left = (torch.rand(count, generator=generator) * (width - w + 1)).long()
    boxes = torch.stack([top, left, h, w], dim=1)
    return torch.where(
        fits.any(dim=1, keepdim=True), boxes, _make_central_box(height, width, ratio)
    )


def _make_central_box(height: int, width: int, ratio: list[float]) -> Tensor:
    """Return (top, left, height, width) of the largest central box within the aspect ratios."""
    h = height
    w = width
    if width / height < ratio[0]:  # the image is too narrow
        h = round(width / ratio[0])
    elif width / height > ratio[1]:  # the image is too wide
        w = round(height * ratio[1])
    return torch.tensor([(height - h) // 2, (width - w) // 2, h, w])


def _compute_resampling_weights(start: Tensor, length: Tensor, extent: int, size: int) -> Tensor:
    """Return weights (B, size, extent) that resample [start, start + length) of an axis to `size`.

    A triangle is centered on each output pixel, with a half-width of one output pixel, or one input
    pixel if the image is enlarged.
    """
    scale = (length / size)[:, None, None]
    pixel = torch.arange(extent, device=start.device)[None, None, :] - start[:, None, None]
    center = (torch.arange(size, device=start.device)[None, :, None] + 0.5) * scale
    weight = (1 - (pixel + 0.5 - center).abs() / scale.clamp(min=1)).clamp(min=0)
    weight = weight * ((pixel >= 0) & (pixel < length[:, None, None]))
    return weight / weight.sum(dim=2, keepdim=True)
