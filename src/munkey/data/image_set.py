"""Sets of labeled images, which training and prediction read in batches."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from munkey.core import gpu
from munkey.core.device import to_device
from munkey.core.randomness import Stage
from munkey.data.prepared import Dataset

NOISE = 8  # of 255: the size of the perturbation of pictures in audits


class LabeledImages(NamedTuple):
    """A batch of labeled images.

    Attributes
    ----------
    images
        (B, 3, H, W) float32 in [0, 1].
    labels
        (B,) int64.
    """

    images: Tensor
    labels: Tensor


class LabeledSet(Protocol):
    """A set of labeled images."""

    def __len__(self) -> int: ...

    def batch(self, index: Tensor, device: str) -> LabeledImages:
        """Return the images at the positions `index` (B,), on the device."""
        ...


@dataclass(frozen=True)
class ImageSet:
    """Labeled images of samples, read in batches.

    Parameters
    ----------
    images : ndarray or Tensor of uint8, shape (M, H, W, 3)
        RGB images of a data set, possibly memory-mapped; or a tensor on the GPU (see ``move_to_gpu_if_it_fits``).
    rows : ndarray of int64, shape (N,)
        ``images[rows[i]]`` is the image of sample i, so a subset shares the images.
    ids : ndarray of int64, shape (N,)
        Ids of the samples, in ascending order.
    labels : ndarray of int64, shape (N,)
        Class of each sample, from 0.

    Raises
    ------
    IndexError
        If ``batch`` gets a position of N or more.

    Notes
    -----
    Pixels are 0 to 255 in storage and float32 in [0, 1] in a batch, not normalized. The set is
    immutable: ``dataclasses.replace`` makes a relabeled set or a subset. ``image_set`` makes one
    from a data set in ``results/NAME/data`` and ids. Methods get their samples as image sets:
    ``request.retain``, ``.forget`` and ``.val``.

    Examples
    --------
    >>> from dataclasses import replace
    >>> pixels = np.full((4, 8, 8, 3), 255, dtype=np.uint8)
    >>> samples = ImageSet(
    ...     pixels, rows=np.arange(4), ids=np.array([3, 5, 8, 9]), labels=np.array([0, 1, 1, 0])
    ... )
    >>> images, labels = samples.batch(torch.tensor([0, 2]), "cpu")
    >>> images.shape, images.max().item(), labels.tolist()
    (torch.Size([2, 3, 8, 8]), 1.0, [0, 1])

    Select the samples of class 1:

    >>> keep = samples.labels == 1
    >>> subset = replace(
    ...     samples, rows=samples.rows[keep], ids=samples.ids[keep], labels=samples.labels[keep]
    ... )
    >>> len(subset), subset.ids.tolist()
    (2, [5, 8])
    """

    images: np.ndarray | Tensor
    rows: np.ndarray
    ids: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, index: Tensor, device: str) -> LabeledImages:
        """Read a batch.

        Parameters
        ----------
        index : Tensor of int64, shape (B,)
            Positions in this set, on the CPU.
        device : str
            "cpu" or "cuda".

        Returns
        -------
        LabeledImages
            Images (B, 3, H, W) float32 in [0, 1] and labels (B,) int64, on the device.
        """
        positions = index.numpy()
        rows = self.rows[positions]
        labels = to_device(torch.from_numpy(self.labels[positions]), device)
        if isinstance(self.images, Tensor):  # already on the device
            images = self.images[to_device(torch.from_numpy(rows), device)]
        else:
            images = torch.from_numpy(np.ascontiguousarray(self.images[rows]))
            images = to_device(images, device)  # as uint8, a quarter of the bytes of float32
        return LabeledImages(to_unit_range(images), labels)


@dataclass(frozen=True)
class TensorSet:
    """Labeled images in memory, for example computed ones.

    Attributes
    ----------
    images
        (N, 3, H, W) float32 in [0, 1].
    labels
        (N,) int64.
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, index: Tensor, device: str) -> LabeledImages:
        """Return the images at the positions `index` (B,), on the device."""
        return LabeledImages(
            to_device(self.images[index], device), to_device(self.labels[index], device)
        )


@dataclass(frozen=True)
class JoinedSet:
    """The concatenation of several sets: positions of the first set come first, and so on."""

    parts: tuple[LabeledSet, ...]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def batch(self, index: Tensor, device: str) -> LabeledImages:
        """Return the images at the positions `index` (B,), in this order, on the device."""
        positions = []  # in `index`, part by part
        images = []
        labels = []
        start = 0
        for part in self.parts:
            is_in_part = (index >= start) & (index < start + len(part))
            positions_in_part = is_in_part.nonzero()[:, 0]
            if len(positions_in_part):
                positions.append(positions_in_part)
                batch = part.batch(index[positions_in_part] - start, device)
                images.append(batch.images)
                labels.append(batch.labels)
            start += len(part)
        # The batches come part by part; argsort inverts that permutation.
        order = to_device(torch.cat(positions).argsort(), device)
        return LabeledImages(torch.cat(images)[order], torch.cat(labels)[order])


def image_set(dataset: Dataset, ids: np.ndarray) -> ImageSet:
    """Make the image set of samples with these sorted ids.

    Raises KeyError for an id that is not in the data set.
    """
    rows = dataset.rows(ids)
    return ImageSet(dataset.images, rows, ids, dataset.labels[rows])


def perturb(samples: ImageSet) -> ImageSet:
    """Return the samples with Gaussian noise (standard deviation: NOISE) on each color of each pixel.

    The same samples always get the same noise.
    """
    generator = Stage("perturbed pictures").numpy_generator()
    images = np.empty((len(samples), *samples.images.shape[1:]), dtype=np.uint8)
    for position, row in enumerate(samples.rows):
        noise = NOISE * generator.standard_normal(images.shape[1:], dtype=np.float32)
        noisy = np.rint(np.asarray(samples.images[row]) + noise)
        images[position] = np.clip(noisy, 0, 255)
    return replace(samples, images=images, rows=np.arange(len(samples)))


def move_to_gpu_if_it_fits(samples: ImageSet, device: str, share: float) -> ImageSet:
    """Return the samples with their images on the GPU, if they fit in `share` of its free memory."""
    if device != "cuda":
        return samples
    image_bytes = len(samples) * samples.images[0].nbytes
    free_bytes = gpu.free_bytes()
    if image_bytes > share * free_bytes:
        print(
            f"{image_bytes / 1e9:.1f} GB of images do not fit in {share:.0%} of"
            f" {free_bytes / 1e9:.1f} GB, so they are streamed"
        )
        return samples
    return upload(samples, device)


def upload(samples: ImageSet, device: str, block: int = 4096) -> ImageSet:
    """Return the samples with only their own images, copied to the device in blocks."""
    images = torch.empty(len(samples), *samples.images.shape[1:], dtype=torch.uint8, device=device)
    for start in range(0, len(samples), block):
        rows = samples.rows[start : start + block]
        host_images = np.ascontiguousarray(samples.images[rows])
        images[start : start + len(rows)] = torch.from_numpy(host_images)
    return replace(samples, images=images, rows=np.arange(len(samples)))


def to_unit_range(images: Tensor) -> Tensor:
    """Convert (B, H, W, 3) uint8 to (B, 3, H, W) float32 in [0, 1]."""
    return images.permute(0, 3, 1, 2).float().div_(255)
