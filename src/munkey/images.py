"""Labelled images, and batched operations on them: random-resized-crop, resize, normalisation.

One resampling serves them all: the crop box of each image becomes two small weight matrices (antialiased bilinear, as
in torchvision and Pillow), so a batch with a different box per image is two batched matrix products on any device.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from munkey.data import Dataset


class Labelled(Protocol):
    """Labelled images that a training step draws its batches from."""

    def __len__(self) -> int: ...

    def batch(self, index: Tensor, device: str) -> tuple[Tensor, Tensor]:
        """Images (B, 3, H, W) in [0, 1] and labels (B,) of the positions `index` (B,), on the device."""
        ...


@dataclass(frozen=True)
class ImageSet:
    """Labelled images of a set of samples. images: (N, H, W, 3) uint8, maybe memory-mapped; row i has rows[i] in it."""

    images: np.ndarray
    rows: np.ndarray
    ids: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, index: Tensor, device: str) -> tuple[Tensor, Tensor]:
        """Images (B, 3, H, W) in [0, 1] and labels (B,) of the positions `index`."""
        chosen = index.numpy()
        images = torch.from_numpy(np.ascontiguousarray(self.images[self.rows[chosen]]))
        return to_unit(images.to(device)), torch.from_numpy(self.labels[chosen]).to(device)


@dataclass(frozen=True)
class TensorSet:
    """Labelled images that were computed. images: (N, 3, H, W) float32 in [0, 1]; labels: (N,) int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, device: str) -> tuple[Tensor, Tensor]:
        """Images (B, 3, H, W) in [0, 1] and labels (B,) of the positions `index`."""
        return self.images[index].to(device), self.labels[index].to(device)


@dataclass(frozen=True)
class Joined:
    """Several sets read as one: positions run through the first, then through the second, and so on."""

    parts: tuple[Labelled, ...]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def batch(self, index: Tensor, device: str) -> tuple[Tensor, Tensor]:
        """Images (B, 3, H, W) in [0, 1] and labels (B,) of the positions `index`, in its order."""
        places, pieces, start = [], [], 0
        for part in self.parts:
            own = ((index >= start) & (index < start + len(part))).nonzero()[:, 0]
            if len(own):
                places.append(own)
                pieces.append(part.batch(index[own] - start, device))
            start += len(part)
        order = torch.cat(places).argsort().to(device)
        images, labels = (torch.cat(piece)[order] for piece in zip(*pieces, strict=True))
        return images, labels


def image_set(dataset: Dataset, ids: np.ndarray) -> ImageSet:
    """The labelled images of the sample ids `ids` (sorted). Raises KeyError for an id that the data set lacks."""
    rows = dataset.rows(ids)
    return ImageSet(dataset.images, rows, ids, dataset.labels[rows])


def to_unit(images: Tensor) -> Tensor:
    """(B, H, W, 3) uint8 -> (B, 3, H, W) float32 in [0, 1]."""
    return images.permute(0, 3, 1, 2).float().div_(255)


def crop_resize(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Cut a box out of each image and resize it to size x size.

    images: (B, 3, H, W) float; boxes: (B, 4) integers (top, left, height, width) inside the image.
    Returns (B, 3, size, size). Equals torchvision's `resized_crop(antialias=True)` box by box.
    """
    top, left, height, width = boxes.to(images.device, torch.float32).unbind(1)
    rows = _weights(top, height, images.shape[2], size)
    columns = _weights(left, width, images.shape[3], size)
    return rows[:, None] @ images @ columns[:, None].mT


def resize(images: Tensor, size: int) -> Tensor:
    """Resize whole images (B, 3, H, W) to size x size, without cropping."""
    if images.shape[2:] == (size, size):
        return images
    box = torch.tensor([[0, 0, images.shape[2], images.shape[3]]])
    return crop_resize(images, box, size)


def normalise(images: Tensor, mean: float, std: float) -> Tensor:
    return (images - mean) / std


def random_boxes(
    count: int, height: int, width: int, scale: list[float], ratio: list[float], generator: torch.Generator
) -> Tensor:
    """Crop boxes of random-resized-crop, distributed as torchvision's `RandomResizedCrop`.

    scale: range of the share of the area; ratio: range of the aspect ratio, drawn log-uniformly. Up to ten draws an
    image, then the largest central crop within `ratio`. Returns (count, 4) int64: top, left, height, width.
    """
    area = height * width * torch.empty(count, 10).uniform_(*scale, generator=generator)
    aspect = torch.empty(count, 10).uniform_(math.log(ratio[0]), math.log(ratio[1]), generator=generator).exp()
    w, h = (area * aspect).sqrt().round().long(), (area / aspect).sqrt().round().long()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.int().argmax(dim=1, keepdim=True)
    h, w = h.gather(1, first)[:, 0], w.gather(1, first)[:, 0]
    top = (torch.rand(count, generator=generator) * (height - h + 1)).long()
    left = (torch.rand(count, generator=generator) * (width - w + 1)).long()
    boxes = torch.stack([top, left, h, w], dim=1)
    return torch.where(fits.any(dim=1, keepdim=True), boxes, _central_box(height, width, ratio))


def _central_box(height: int, width: int, ratio: list[float]) -> Tensor:
    h, w = height, width
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    return torch.tensor([(height - h) // 2, (width - w) // 2, h, w])


def _weights(start: Tensor, length: Tensor, extent: int, size: int) -> Tensor:
    """(B, size, extent) weights that resample [start, start + length) of an axis of `extent` pixels to `size`."""
    scale = (length / size)[:, None, None]
    pixel = torch.arange(extent, device=start.device)[None, None, :] - start[:, None, None]
    centre = (torch.arange(size, device=start.device)[None, :, None] + 0.5) * scale
    weight = (1 - (pixel + 0.5 - centre).abs() / scale.clamp(min=1)).clamp(min=0)
    weight = weight * ((pixel >= 0) & (pixel < length[:, None, None]))
    return weight / weight.sum(dim=2, keepdim=True)
