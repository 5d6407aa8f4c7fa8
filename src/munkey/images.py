"""Labelled images, and batched operations on them: random-resized-crop, resize, normalisation.

One resampling serves them all: the crop box of each image becomes two small weight matrices (antialiased bilinear, as
in torchvision and Pillow), so a batch with a different box per image is two batched matrix products on any device.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from munkey.data import Dataset

Given = TypeVar("Given")
Made = TypeVar("Made")


class Labelled(Protocol):
    """Labelled images that a training step draws its batches from."""

    def __len__(self) -> int: ...

    def batch(self, index: Tensor, device: str) -> tuple[Tensor, Tensor]:
        """Images (B, 3, H, W) in [0, 1] and labels (B,) of the positions `index` (B,), on the device."""
        ...


def on(tensor: Tensor, device: str) -> Tensor:
    """A tensor of the host on the device; a GPU is not waited for, since the copy is made from pinned memory."""
    return tensor.pin_memory().to(device, non_blocking=True) if device == "cuda" else tensor


@dataclass(frozen=True)
class ImageSet:
    """Labelled images of a set of samples. Sample i's lies in rows[i] of `images`, (N, H, W, 3) uint8.

    images: an array of the host, maybe memory-mapped, or a tensor of the device (`resident`).
    """

    images: np.ndarray | Tensor
    rows: np.ndarray
    ids: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, index: Tensor, device: str) -> tuple[Tensor, Tensor]:
        """Images (B, 3, H, W) in [0, 1] and labels (B,) of the positions `index`."""
        chosen = index.numpy()
        rows, labels = self.rows[chosen], on(torch.from_numpy(self.labels[chosen]), device)
        if isinstance(self.images, Tensor):
            return to_unit(self.images[on(torch.from_numpy(rows), device)]), labels
        return to_unit(on(torch.from_numpy(np.ascontiguousarray(self.images[rows])), device)), labels


@dataclass(frozen=True)
class TensorSet:
    """Labelled images that were computed. images: (N, 3, H, W) float32 in [0, 1]; labels: (N,) int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, device: str) -> tuple[Tensor, Tensor]:
        """Images (B, 3, H, W) in [0, 1] and labels (B,) of the positions `index`."""
        return on(self.images[index], device), on(self.labels[index], device)


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
        order = on(torch.cat(places).argsort(), device)
        images, labels = (torch.cat(piece)[order] for piece in zip(*pieces, strict=True))
        return images, labels


@dataclass(frozen=True)
class Batch:
    """index: (B,) positions, on the host; images (B, 3, H, W) in [0, 1] and labels (B,), on the device."""

    index: Tensor
    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.index)


class Loader:
    """The batches of one epoch, in the order of `indices`; on a GPU the next ones are copied while one is computed."""

    AHEAD = 2

    def __init__(self, samples: Labelled, indices: Sequence[Tensor], device: str) -> None:
        self.samples, self.indices, self.device = samples, indices, device

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Batch]:
        if self.device != "cuda":
            yield from map(self._batch, self.indices)
            return
        copies, now = torch.cuda.Stream(), torch.cuda.current_stream()

        def copied(index: Tensor) -> tuple[Batch, torch.cuda.Event]:
            with torch.cuda.stream(copies):
                return self._batch(index), copies.record_event()

        for batch, arrived in ahead(copied, self.indices, self.AHEAD):
            now.wait_event(arrived)
            for tensor in (batch.images, batch.labels):
                tensor.record_stream(now)
            yield batch

    def _batch(self, index: Tensor) -> Batch:
        return Batch(index, *self.samples.batch(index, self.device))


def ahead(make: Callable[[Given], Made], items: Sequence[Given], count: int) -> Iterator[Made]:
    """`make` of each item in order, made in another thread up to `count` items before it is asked for."""
    with ThreadPoolExecutor(1) as thread:
        waiting: deque[Future[Made]] = deque()
        for item in items:
            waiting.append(thread.submit(make, item))
            if len(waiting) > count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def resident(samples: ImageSet, device: str, share: float) -> ImageSet:
    """The same samples with their images on a GPU, if they take at most `share` of its free memory; else unchanged.

    On a CPU they are where the computing is already.
    """
    if device != "cuda":
        return samples
    needed, free = len(samples) * samples.images[0].nbytes, torch.cuda.mem_get_info()[0]
    if needed > share * free:
        print(f"{needed / 1e9:.1f} GB of images do not fit in {share:.0%} of {free / 1e9:.1f} GB: they are streamed")
        return samples
    return uploaded(samples, device)


def uploaded(samples: ImageSet, device: str, block: int = 4096) -> ImageSet:
    """The same samples with their images, and no others, in a tensor on the device; copied a block at a time."""
    images = torch.empty(len(samples), *samples.images.shape[1:], dtype=torch.uint8, device=device)
    for start in range(0, len(samples), block):
        rows = samples.rows[start : start + block]
        images[start : start + len(rows)] = torch.from_numpy(np.ascontiguousarray(samples.images[rows]))
    return replace(samples, images=images, rows=np.arange(len(samples)))


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
    top, left, height, width = on(boxes.float(), images.device.type).unbind(1)
    rows = _weights(top, height, images.shape[2], size)
    columns = _weights(left, width, images.shape[3], size)
    with torch.autocast(images.device.type, enabled=False):  # bfloat16 has fewer digits than a pixel
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
